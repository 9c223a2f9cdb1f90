// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/pipeline/timetable.h"

namespace stretto {

Timetable OneByOne(const PipelineOrder& order) {
  Timetable timetable = {.cells = {},
                         .begin = order.begin,
                         .end = order.end,
                         .period = order.period,
                         .stride = order.stride};
  for (const Turn& turn : order.turns) timetable.cells.push_back({turn});
  return timetable;
}

Timetable HelixOf(int micro_batches) {
  const auto forward = [](int mb) { return Turn{.pass = PassKind::kForward, .micro_batch = mb}; };
  const auto backward = [](int mb) { return Turn{.pass = PassKind::kBackward, .micro_batch = mb}; };
  Timetable helix;
  helix.cells.push_back({forward(0)});
  for (int mb = 1; mb < micro_batches; ++mb) helix.cells.push_back({forward(mb), backward(mb - 1)});
  helix.cells.push_back({backward(micro_batches - 1)});
  helix.begin = 1;
  helix.end = micro_batches;
  return helix;
}

}  // namespace stretto

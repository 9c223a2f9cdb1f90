// SPDX-License-Identifier: Apache-2.0

// folded: forward of a micro-batch and backward of another meet on every stage, so that each cell
// of a step is woven (helix.cc). With p stages a model has 2 p chunks, which go down the stages and
// back up: stage r has the chunks r and 2 p - 1 - r, and the first stage has both ends of the
// model. In super-slot s, for the chunks 0 (the way down) and 1 (the way up) of a stage:
//
//   D(s) = forward of chunk 0 for s, with backward of chunk 1 for s - p    from stage to stage down
//   U(s) = forward of chunk 1 for s, with backward of chunk 0 for s - p    from stage to stage up
//
// What a cell lacks of the two at the begin and the end of a step is left out. Stage r computes
// D(0) to D(p - r - 2), then D and U in turn, then what is left of U. Two stages and four
// micro-batches; F1' is forward of micro-batch 1 through chunk 1 of the stage:
//
//   0 | F0 | F1 | F0'| F2 B0'| F1'| F3 B1'| F2' B0 | B2'| F3' B1 | B3'| B2 | B3 |
//   1      | F0 | F0'| F1 | F1'| F2 B0'| F2' B0 | F3 B1'| F3' B1 | B2'| B2 | B3'| B3 |
//
// With c the time of a woven pair and F, B those of passes alone, a step of M > p micro-batches
// takes (M - 1) c + p (F + B), where F, B and c are of both chunks of a stage. Stage r has 2 p - r
// micro-batches in flight in chunk 0 and r + 1 in chunk 1, so every stage keeps the activations of
// 2 p + 1 chunks.
//
// With one stage of one chunk there is no way up, and D(s) alone is helix (Wang et al. 2024). The
// embedding E of a micro-batch is a cell earlier, because a cell would begin with two collectives
// that nothing hides: those of the embedding, and of the head in backward.
//
//   E0 | F0 E1 | F1 B0 E2 | F2 B1 E3 | ... | F(M-1) B(M-2) | B(M-1)

#include <algorithm>

#include "proto/base/check.h"
#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {

PipelineOrder Folded(const StageOfPipeline& at, bool backward) {
  STRETTO_CHECK(at.chunks == 2 || (at.chunks == 1 && at.stages == 1));
  // Super-slots by which backward is behind forward, and U behind D.
  const int behind = at.stages, turn = at.chunks == 1 ? 0 : at.stages - at.stage - 1;
  const int slots = at.micro_batches + (backward ? behind : 0);
  const bool embeds = backward && at.chunks == 1 && at.micro_batches > 1;
  PipelineOrder order{.cells = {}, .period = at.chunks};
  const auto embedding = [](int micro_batch) {
    return Turn{.pass = PassKind::kEmbedding, .micro_batch = micro_batch};
  };
  if (embeds) order.cells.push_back({embedding(0)});
  const auto add = [&](int chunk, int slot) {
    Cell cell;
    if (slot >= 0 && slot < at.micro_batches)
      cell.push_back({.pass = PassKind::kForward, .micro_batch = slot, .chunk = chunk});
    if (backward && slot >= behind && slot < slots) {
      cell.push_back({.pass = PassKind::kBackward,
                      .micro_batch = slot - behind,
                      .chunk = at.chunks - 1 - chunk});
    }
    if (embeds && slot + 1 < at.micro_batches) cell.push_back(embedding(slot + 1));
    if (!cell.empty()) order.cells.push_back(std::move(cell));
  };
  // D(s) and U(s - turn) are whole from this slot on.
  const int whole = (backward ? behind : 0) + turn;
  for (int slot = 0; slot < slots + turn; ++slot) {
    if (slot == whole) order.begin = static_cast<int>(order.cells.size());
    add(0, slot);
    if (at.chunks == 2) add(1, slot - turn);
  }
  const int last = embeds ? 1 : 0;  // without an embedding
  order.end = order.begin + order.period * std::max(0, at.micro_batches - whole - last);
  return order;
}

}  // namespace stretto

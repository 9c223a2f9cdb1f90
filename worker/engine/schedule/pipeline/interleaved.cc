// SPDX-License-Identifier: Apache-2.0

// interleaved_1f1b (Narayanan et al. 2021, section 2.2): a stage has v chunks of layers, chunk c of
// the model being on stage c mod p, so a micro-batch runs through the stages v times. A stage idles
// while a micro-batch comes from the first stage and goes back to it, and these passes are v times
// shorter: the bubble is (p - 1) (F + B) / v, with F and B of all layers of a stage. The price is v
// times as many transfers, which also wrap around from the last stage to the first.
//
// Micro-batches go through a chunk in groups of p, as many as follow each other until the first of
// them comes back from the last stage. Two stages of two chunks, four micro-batches; F2' is forward
// of micro-batch 2 through the second chunk of the stage:
//
//   0 | F0 | F1 | F0'| F1'| F2 | B0'| F3 | B1'| F2'| B0 | F3'| B1 |    | B2'|    | B3'| B2 | B3 |
//   1      | F0 | F1 | F0'| B0'| F1'| B1'| F2 | B0 | F3 | B1 | F2'| B2'| F3'| B3'| B2 | B3 |
//
// A stage computes (v - 1) p passes before the first micro-batch is in its last chunk, one, and two
// more for each stage that follows. 1f1b has one for each; the second gives every transfer a pass
// to hide under, as eager_1f1b does.

#include <algorithm>

#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {

int InterleavedOneForwardOneBackward(const StageOfPipeline& at) {
  return (at.chunks - 1) * at.stages + 2 * (at.stages - at.stage - 1) + 1;
}

std::vector<Turn> PassesInTurn(PassKind pass, const StageOfPipeline& at) {
  std::vector<Turn> turns;
  for (int first = 0; first < at.micro_batches; first += at.stages) {
    const int end = std::min(first + at.stages, at.micro_batches);
    for (int i = 0; i < at.chunks; ++i) {
      const int chunk = pass == PassKind::kForward ? i : at.chunks - 1 - i;
      for (int mb = first; mb < end; ++mb)
        turns.push_back({.pass = pass, .micro_batch = mb, .chunk = chunk});
    }
  }
  return turns;
}

}  // namespace stretto

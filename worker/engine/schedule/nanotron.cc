// SPDX-License-Identifier: Apache-2.0

// nanotron: the order of nanotron's pull request 286. Forward is that of domino_row. Backward waits
// for each collective directly after the weight gradient of the same product, as megatron_async
// does. Backward starts with slice 0 (see domino_paper.cc).
//
//   forward   compute | ATT0 | ATT1 | MLP0 | MLP1 | ATT0' | ATT1' |
//             comm.tp |      | ARa0 | ARa1 | ARm0 | ARm1  | ...
//   backward  compute | d..(FC1_0) | w(FC1_0) |     | LN2_0' d..(FC1_1) | w(FC1_1) |     | LN2_1'
//             comm.tp |            | ARm0 ........  |                   | ARm1 ........  |

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace nanotron {

void Forward(Weaver& weaver, int layer) {
  weaver.PlayAll("ln1 qkv attention proj", layer);
  weaver.PlayAll("res1 ln2 fc1 act fc2", layer);
}

void Backward(Weaver& weaver, int layer) {
  weaver.PlayAll("d.fc2 w.fc2 d.act d.fc1 w.fc1 d.ln2 d.res1", layer);
  for (int slice = 0; slice < weaver.slices(); ++slice) {
    weaver.Play("d.proj w.proj d.attention d.qkv w.qkv d.ln1", layer, slice);
    weaver.Play("d.res2", layer - 1, slice);
  }
}

}  // namespace nanotron

absl::Status Nanotron(const EngineSpec&, StepProgram* step) {
  return Arrange({nanotron::Forward, nanotron::Backward}, step);
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// domino_intra: DeepSpeed's current Domino without overlap across layers (DeepSpeed edaa7221,
// March 2025, "intra"). Backward starts with slice 0 (see domino_paper.cc).
//
//   forward   compute | ATT0 | ATT1 | LN2_0 FC1_0 ACT0 | LN2_1 FC2_0 | FC1_1 ACT1 FC2_1 | BDA2_0 |
//             comm.tp |      | ARa0 | ARa1             |             | ARm0             | ARm1 ...
//   backward  compute | d..(FC1_0) | w(FC1_0) FC2_1' | LN2_0' d(FC1_1) | w(FC1_1) | | LN2_1' ATT0'
//             comm.tp |            | ARm0            |                 | ARm1 ..... |

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace domino_intra {

void Forward(Weaver& weaver, int layer) {
  weaver.PlayAll("ln1 qkv attention proj", layer);
  weaver.Play("res1 ln2 fc1 act", layer, 0);
  weaver.Play("res1 ln2", layer, 1);
  weaver.Play("fc2", layer, 0);
  weaver.Play("fc1 act fc2", layer, 1);
  weaver.PlayAll("res2", layer);
}

void Backward(Weaver& weaver, int layer) {
  weaver.Play("d.fc2 w.fc2 d.act d.fc1 w.fc1", layer, 0);
  weaver.Play("d.fc2 w.fc2", layer, 1);
  weaver.Play("d.ln2 d.res1", layer, 0);
  weaver.Play("d.act d.fc1 w.fc1", layer, 1);
  weaver.Play("d.ln2 d.res1", layer, 1);
  for (int slice = 0; slice < weaver.slices(); ++slice) {
    weaver.Play("d.proj w.proj d.attention d.qkv w.qkv d.ln1", layer, slice);
    weaver.Play("d.res2", layer - 1, slice);
  }
}

}  // namespace domino_intra

absl::Status DominoIntra(const EngineSpec&, StepProgram* step) {
  return Arrange({domino_intra::Forward, domino_intra::Backward}, step);
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// domino_release1: what DeepSpeed's first Domino release ran (DeepSpeed fabab197f, November 2024),
// with the wait that it lacked before slice 1's second norm. Slices do not overlap across layers,
// and attention's backward collectives have only their own weight gradient to hide under. Backward
// starts with slice 0 (see domino_paper.cc).
//
//   forward   compute | ATT0 | ATT1 | LN2_0 | | LN2_1 | MLP0 | MLP1 |      | BDA2_1 BDA2_0 | ATT0'
//             comm.tp |      | ARa0 | ARa1 .. |              | ARm0 | ARm1 |
//   backward  compute | MLP0' | MLP1' | LN2_0' |      | LN2_1' | ATT0' | w(QKV0) | | LN1_0' ATT1' |
//             comm.tp |       | ARm0  | ARm1 ........ |                | ARa0 .... |

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace domino_release1 {

void Forward(Weaver& weaver, int layer) {
  weaver.PlayAll("ln1", layer);
  weaver.PlayAll("qkv attention proj", layer);
  weaver.PlayAll("res1 ln2", layer);
  weaver.PlayAll("fc1 act fc2", layer);
  weaver.Play("res2", layer, 1);
  weaver.Play("res2", layer, 0);
}

void Backward(Weaver& weaver, int layer) {
  weaver.PlayAll("d.fc2 w.fc2 d.act w.fc1 d.fc1", layer);
  weaver.PlayAll("d.ln2 d.res1", layer);
  for (int slice = 0; slice < weaver.slices(); ++slice) {
    weaver.Play("d.proj w.proj d.attention d.qkv w.qkv d.ln1", layer, slice);
    weaver.Play("d.res2", layer - 1, slice);
  }
}

}  // namespace domino_release1

absl::Status DominoRelease1(const EngineSpec&, StepProgram* step) {
  return Arrange({domino_release1::Forward, domino_release1::Backward}, step);
}

}  // namespace stretto

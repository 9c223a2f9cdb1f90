// SPDX-License-Identifier: Apache-2.0

// domino_inter: DeepSpeed's current Domino, across layers (DeepSpeed edaa7221, March 2025, the
// default). The last product of each half-block waits for the norm of the other slice. This
// shortens the forward windows and gives the backward pass, which mirrors it, windows of its own.
// Backward starts with slice 0 (see domino_paper.cc).
//
//   forward   compute | QKV0 CORE0 | LN1_1 PROJ0 | QKV1 CORE1 | LN2_0 PROJ1 | FC1_0 ACT0 | LN2_1 ..
//             comm.tp | ARm1       |             | ARa0       |             | ARa1       |
//   backward  compute | FC2_0' | LN1_1' d(FC1_0) | w(FC1_0) FC2_1' | LN2_0' d(FC1_1) | w(FC1_1)
//             comm.tp | ARa1'  |                 | ARm0            |                 | ARm1

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace domino_inter {

void Forward(Weaver& weaver, int layer) {
  weaver.Play("qkv attention", layer, 0);
  weaver.Play("ln1", layer, 1);
  weaver.Play("proj", layer, 0);
  weaver.Play("qkv attention", layer, 1);
  weaver.Play("res1 ln2", layer, 0);
  weaver.Play("proj", layer, 1);
  weaver.Play("fc1 act", layer, 0);
  weaver.Play("res1 ln2", layer, 1);
  weaver.Play("fc2", layer, 0);
  weaver.Play("fc1 act", layer, 1);
  weaver.Play("ln1 final_norm", layer + 1, 0);
  weaver.Play("fc2", layer, 1);
}

void Backward(Weaver& weaver, int layer) {
  weaver.Play("d.fc2 w.fc2", layer, 0);
  weaver.Play("d.ln1 d.final_norm", layer + 1, 1);
  weaver.Play("d.res2", layer, 1);
  weaver.Play("d.act d.fc1 w.fc1", layer, 0);
  weaver.Play("d.fc2 w.fc2", layer, 1);
  weaver.Play("d.ln2 d.res1", layer, 0);
  weaver.Play("d.act d.fc1 w.fc1", layer, 1);
  weaver.Play("d.proj w.proj", layer, 0);
  weaver.Play("d.ln2 d.res1", layer, 1);
  weaver.Play("d.attention d.qkv w.qkv", layer, 0);
  weaver.Play("d.proj w.proj", layer, 1);
  weaver.Play("d.ln1", layer, 0);
  weaver.Play("d.res2", layer - 1, 0);
  weaver.Play("d.attention d.qkv w.qkv", layer, 1);
}

}  // namespace domino_inter

absl::Status DominoInter(const EngineSpec&, StepProgram* step) {
  return Arrange({domino_inter::Forward, domino_inter::Backward}, step);
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// domino_paper: the order that the Domino paper draws (Wang et al. 2024, figures 9 and 10). The
// norms of both slices run together between attention and MLP. Backward starts with slice 0, so
// that weight gradients are added in slice order. The slices are equal, so this order overlaps as
// much as a mirror of forward would.
//
//   forward   compute | ATT0 | ATT1 | LN2_0 | | LN2_1 | FC1_0 ACT0 FC2_0 | FC1_1 ACT1 FC2_1 | ATT0'
//             comm.tp |      | ARa0 | ARa1 .. |                          | ARm0             | ARm1
//   backward  compute | MLP0' | w(FC1_0) MLP1' | w(FC1_1) LN2_0' | LN2_1' | ATT0' | w(QKV0) ATT1' |
//             comm.tp |       | ARm0           | ARm1                     |       | ARa0

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace domino_paper {

void Forward(Weaver& weaver, int layer) {
  weaver.PlayAll("ln1 qkv attention proj", layer);
  weaver.PlayAll("res1 ln2", layer);
  weaver.PlayAll("fc1 act fc2", layer);
}

void Backward(Weaver& weaver, int layer) {
  weaver.PlayAll("d.fc2 w.fc2 d.act d.fc1 w.fc1", layer);
  weaver.PlayAll("d.ln2 d.res1", layer);
  weaver.PlayAll("d.proj w.proj d.attention d.qkv w.qkv", layer);
}

}  // namespace domino_paper

absl::Status DominoPaper(const EngineSpec&, StepProgram* step) {
  return Arrange({domino_paper::Forward, domino_paper::Backward}, step);
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// domino_col (Wang et al. 2024, section 4, column split of the second weight): the batch is not
// sliced. The last product of each half-block is computed in p column pieces, and each piece is
// reduced under the product of the next. The pieces are adjacent in memory, so nothing is
// concatenated. The paper describes no backward pass. Its dual cuts the first weight by input
// columns, so that dX arrives in pieces, and all weight gradients fill the remaining time.
//
//   forward   compute | QKV CORE PROJ.c0 | PROJ.c1 |        | FC1 ACT FC2.c0 | FC2.c1 |
//             comm.tp |                  | ARa.c0  | ARa.c1 |                | ARm.c0 | ARm.c1
//   backward  compute | d(FC2,ACT) d(FC1).c0 | d(FC1).c1 | w(FC2) w(FC1) | d(PROJ,CORE) ...
//             comm.tp |                      | ARm.c0    | ARm.c1        |

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace domino_col {

void Forward(Weaver& weaver, int layer) {
  weaver.Play("ln1 qkv attention proj res1 ln2 fc1 act fc2", layer, 0);
}

void Backward(Weaver& weaver, int layer) {
  weaver.Play("d.fc2 d.act d.fc1 w.fc2 w.fc1", layer, 0);
  weaver.Play("d.ln2 d.proj d.attention d.qkv w.proj w.qkv", layer, 0);
}

}  // namespace domino_col

absl::Status DominoCol(const EngineSpec&, StepProgram* step) {
  return Arrange({domino_col::Forward, domino_col::Backward}, step);
}

}  // namespace stretto

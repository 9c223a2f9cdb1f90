// SPDX-License-Identifier: Apache-2.0

// 1f1b (Narayanan et al. 2021, "PipeDream-Flush"): a stage has one micro-batch in flight for each
// stage from it to the end, so that the first backward pass reaches it when they are computed. It
// keeps the fewest activations of all orders without idle time in between.
//
// With three stages, where forward and backward take as long as each other:
//
//   stage 0 | F0 | F1 | F2 |         | B0 | F3 | B1 | F4 | ...
//   stage 1 |    | F0 | F1 |    | B0 | F2 | B1 | F3 | ...
//   stage 2 |         | F0 | B0 | F1 | B1 | F2 | ...
//
// A transfer hides only under what its receiver has left to compute. With one micro-batch for each
// stage there is nothing left: every pair of passes waits for the way there and back.

#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {

int OneForwardOneBackward(const StageOfPipeline& at) { return at.stages - at.stage; }

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// eager_1f1b (Zhuang et al. 2023, section 4.3): one more micro-batch in flight for each stage that
// follows than 1f1b has. A forward pass is then sent a period before the receiver needs it, and the
// transfer runs under the pass in between, at the price of activations of as many micro-batches.
//
//   stage 0 | F0 | F1 | F2 |        | B0 | F3 | B1 | F4 | ...     (2 stages)
//   stage 1 |      | F0 | B0 | F1 | B1 | F2 | B2 | ...            (F1 was sent under F0 and B0)

#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {

int EagerOneForwardOneBackward(const StageOfPipeline& at) { return 2 * (at.stages - at.stage) - 1; }

}  // namespace stretto

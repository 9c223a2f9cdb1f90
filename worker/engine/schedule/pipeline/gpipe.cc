// SPDX-License-Identifier: Apache-2.0

// gpipe (Huang et al. 2019): forward of all micro-batches, then backward of all. Its idle time is
// that of 1f1b, but a stage keeps the activations of every micro-batch of the step.
//
//   stage 0 | F0 | F1 | F2 | F3 |         | B0 | B1 | B2 | B3 |
//   stage 1 |    | F0 | F1 | F2 | F3 | B0 | B1 | B2 | B3 |

#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {

int GPipe(const StageOfPipeline& at) { return at.micro_batches; }

}  // namespace stretto

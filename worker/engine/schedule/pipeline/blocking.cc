// SPDX-License-Identifier: Apache-2.0

// 1f1b_blocking: 1f1b as Megatron-LM runs it without overlap of its transfers (Narayanan et al.
// 2021, section 4.1): between two passes a stage sends what it has computed, receives what it needs
// next, and computes nothing. It is the baseline of the other orders.
//
//   stage 0 | F0 |s| F1 |s  r|     B0     |s r| F2 ...          (s, r: sends and receives)
//   stage 1      |r| F0 |     B0     |s  r| F1 ...

#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {

int BlockingOneForwardOneBackward(const StageOfPipeline& at) { return OneForwardOneBackward(at); }

}  // namespace stretto

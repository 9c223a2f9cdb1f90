// SPDX-License-Identifier: Apache-2.0

// megatron_sync (Shoeybi et al. 2019, section 3): no slices, and every collective is exposed. The
// canonical order already is this schedule; serialise_lanes makes the lanes wait for each other.
//
//   forward   compute | attention |     | MLP |     | attention' |        (' = next layer)
//             comm.tp |           | ARa |     | ARm |            | ARa'
//   backward  compute | d,w(MLP) |     | d,w(attention) |     |
//             comm.tp |          | ARm |                | ARa |

#include "worker/engine/schedule/passes.h"

namespace stretto {

absl::Status MegatronSync(const EngineSpec&, StepProgram*) { return absl::OkStatus(); }

}  // namespace stretto

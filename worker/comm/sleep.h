// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sleeping for the decorators that pretend to be slow. Costs no CPU.

#include "absl/time/time.h"

namespace stretto {

// Sleeps until `deadline` of Clock::Real().Monotonic(); returns at once if that is in the past.
void SleepUntil(absl::Duration deadline);

}  // namespace stretto

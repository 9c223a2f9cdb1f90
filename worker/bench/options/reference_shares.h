// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shares of communication whose results were published (worker/bench/reference.h).

namespace stretto {

inline constexpr double kReferenceShares[2] = {0.16, 0.43};

}  // namespace stretto

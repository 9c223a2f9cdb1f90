// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of the cross-entropy whose loss does not count, for example those of a prompt.

#include <cstdint>

namespace stretto {

// The target of such a row. Its loss and its gradient are 0. CrossEntropySum gives it the sums
// (1, 0) on the rank with the first column of the vocabulary and (0, 0) on others, which add up to
// the loss log(1) - 0.
constexpr int32_t kNoTarget = -1;

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which workers the blocks of a gang go to: a pure function of numbers.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinator/placement/placement.h"

namespace stretto::coordinator {

// Deals a gang to workers with `room` free slots each. Returns the number of each rank's worker,
// nothing if the gang does not fit.
//
// If one worker has room for all of it, the gang goes to the one with least. Otherwise it takes as
// few workers as possible, those with most room; then their borders cut as few stages as possible,
// each into as few parts as possible. Of workers that are alike it takes the first. The minima are
// exact if block sizes divide each other and stages are alike. Blocks are split only if they do not
// fit otherwise and the gang allows it.
std::vector<size_t> DealGang(const std::vector<int32_t>& room, const Gang& gang);

// Returns how many of the gang's blocks find room, the largest first, whole.
int32_t WholeBlocks(const std::vector<int32_t>& room, const Gang& gang);

}  // namespace stretto::coordinator

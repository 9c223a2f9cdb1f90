// SPDX-License-Identifier: Apache-2.0
#pragma once
// The report of `stretto-bench overlap` as one JSON object (docs/BENCHMARKS.md defines its terms).

#include <string>

#include "worker/bench/overlap/compare.h"
#include "worker/bench/overlap/single_rank.h"

namespace stretto::bench {

std::string ToJson(const OverlapOptions& options, const Comparison& comparison);
std::string ToJson(const OverlapOptions& options, const SingleRank& single);

}  // namespace stretto::bench

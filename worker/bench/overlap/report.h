// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto-bench overlap` found, as one JSON object (docs/BENCHMARKS.md has its words).

#include <string>

#include "worker/bench/overlap/compare.h"
#include "worker/bench/overlap/single_rank.h"

namespace stretto::bench {

std::string ToJson(const OverlapOptions& options, const Comparison& comparison);
std::string ToJson(const OverlapOptions& options, const SingleRank& single);

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto-bench overlap` found over emulated links, for people and for programs
// (docs/BENCHMARKS.md has its words). All of it is labelled so.

#include <string>
#include <vector>

#include "worker/bench/overlap/compare.h"

namespace stretto::bench {

struct EmulatedComparison {
  EmulatedLinkOptions link;
  Comparison comparison;
};
using EmulatedReport = std::vector<EmulatedComparison>;

// "emulated link: alpha 12us, beta 270 GB/s, k 2"; what k = 0 leaves out is said, too.
std::string Describe(const EmulatedLinkOptions& link);

// A line for each schedule.
std::string ToText(const Comparison& comparison);

std::string ToJson(const OverlapOptions& options, const EmulatedReport& report,
                   const Machine& machine);

}  // namespace stretto::bench

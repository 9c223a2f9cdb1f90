// SPDX-License-Identifier: Apache-2.0
#pragma once
// The report of `stretto-bench overlap` over emulated links as text and as JSON (docs/BENCHMARKS.md
// defines its terms). Every figure is labelled "emulated link".

#include <string>
#include <vector>

#include "worker/bench/overlap/compare.h"

namespace stretto::bench {

struct EmulatedComparison {
  EmulatedLinkOptions link;
  Comparison comparison;
};
using EmulatedReport = std::vector<EmulatedComparison>;

// "emulated link: alpha 12us, beta 270 GB/s, k 2"
std::string Describe(const EmulatedLinkOptions& link);

// A line per schedule.
std::string ToText(const Comparison& comparison);

std::string ToJson(const OverlapOptions& options, const EmulatedReport& report,
                   const Machine& machine);

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The values of the flags of `stretto-bench sim`, each checked individually.

#include <string>
#include <vector>

#include "worker/bench/options/reference_shares.h"
#include "worker/bench/options/spec_flags.h"

namespace CLI {
class App;
}

namespace stretto {

// Values of --plan that are no file.
inline constexpr char kDefaultPlan[] = "default", kFoundPlan[] = "found";

struct SimFlags {
  bench::SpecFlags spec;
  std::string grid = "layer", plan = kDefaultPlan, costs;
  int layer = -1, columns = 0;  // as in SimOptions
  bool print_plan = false, json = false, reference = false;
  std::vector<double> shares{std::begin(kReferenceShares), std::end(kReferenceShares)};
  std::vector<int> stages{1};
  std::vector<int> chunks;          // of a stage, for the orders that take several
  std::vector<std::string> orders;  // empty: all, without chunks those that take one
  int ranks_per_node = 1;
  double gbps = 1, latency_us = 0, gflops = 100, membw = 10;
  double node_gbps = 0, node_latency_us = 0;  // 0 Gbit/s: no limit
  double contention = 0, link_contention = 0;
};

// Adds the flags to `app`; parsing fills `flags`, which must outlive it. Errors: CLI::ParseError,
// whose message has flag, found and expected.
void AddSimFlags(CLI::App& app, SimFlags& flags);

}  // namespace stretto

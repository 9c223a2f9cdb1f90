// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of benchmarks that run one process per rank: which rank this one is, and how it finds
// the others.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/bench/options/spec_flags.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stretto::bench {

struct RankFlags {
  int rank = 0;                       // of this process
  std::string rendezvous = {};        // a folder that only the ranks use
  std::string address = "127.0.0.1";  // of the network interface
  int repeats = 5;                    // rounds
  std::string json = {};              // file for a copy of the JSON, written by rank 0
};

inline constexpr int kMostRanks = (1 << 16) + 1;

// Adds --rank (below `ranks`), --rendezvous (required), --address, --repeats and --json.
void AddRankFlags(CLI::App& app, RankFlags& flags, int ranks = kMostRanks);

// Returns the spec of the flags, of ranks that differ in stage or replica alone, which is what
// `measured` names ("stages"). Errors: InvalidArgument naming the flag.
absl::StatusOr<EngineSpec> SpecOfRanks(const SpecFlags& flags, const RankFlags& ranks,
                                       absl::string_view measured);

}  // namespace stretto::bench

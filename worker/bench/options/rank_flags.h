// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of benchmarks that run one process per rank: which rank this one is, and how it finds
// the others.

#include <string>

#include "absl/status/status.h"
#include "worker/engine/spec/spec.h"

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

void AddRankFlags(CLI::App& app, RankFlags& flags);

// Errors: InvalidArgument naming the flag, if the work has no such rank.
absl::Status CheckRank(const RankFlags& flags, const EngineSpec& spec);

}  // namespace stretto::bench

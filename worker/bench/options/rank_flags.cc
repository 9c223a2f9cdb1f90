// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/rank_flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "worker/bench/options/flags.h"

namespace stretto::bench {

void AddRankFlags(CLI::App& app, RankFlags& flags) {
  const std::string group = "Ranks";
  app.add_option("--rank", flags.rank, "rank of this process, stage by stage")
      ->check(Integer(0, 1 << 16))
      ->group(group);
  app.add_option("--rendezvous", flags.rendezvous,
                 "empty folder in which the ranks find each other")
      ->check(CLI::ExistingDirectory)
      ->required()
      ->group(group);
  app.add_option("--address", flags.address, "numeric address of the network interface")
      ->capture_default_str()
      ->group(group);
  app.add_option("--repeats", flags.repeats, "number of rounds; a time is their median")
      ->check(Integer(1, 1000))
      ->capture_default_str();
  app.add_option("--json", flags.json, "file for a copy of the result as JSON");
}

absl::Status CheckRank(const RankFlags& flags, const EngineSpec& spec) {
  if (flags.rank < spec.world_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--rank: found ", flags.rank, ", expected below ",
                                                 spec.world_size(), ", the number of ranks"));
}

}  // namespace stretto::bench

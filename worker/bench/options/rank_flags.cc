// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/rank_flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/bench/options/flags.h"

namespace stretto::bench {

void AddRankFlags(CLI::App& app, RankFlags& flags, int ranks) {
  const std::string group = "Ranks";
  app.add_option("--rank", flags.rank, "rank of this process")
      ->check(Integer(0, ranks - 1))
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

absl::StatusOr<EngineSpec> SpecOfRanks(const SpecFlags& flags, const RankFlags& ranks,
                                       absl::string_view measured) {
  if (flags.tp != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tp: found ", flags.tp, ", expected 1, because the link is measured for ",
                     measured, " alone"));
  }
  absl::StatusOr<EngineSpec> spec = SpecOf(flags);
  RETURN_IF_ERROR(NameFlags(spec.status()));
  if (ranks.rank < spec->world_size()) return spec;
  return absl::InvalidArgumentError(absl::StrCat("--rank: found ", ranks.rank, ", expected below ",
                                                 spec->world_size(), ", the number of ranks"));
}

}  // namespace stretto::bench

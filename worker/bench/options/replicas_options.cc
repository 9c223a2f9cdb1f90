// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/replicas_options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/spec_flags.h"

namespace stretto::bench {
namespace {

constexpr char kReplicasSummary[] =
    "Measures what replicas of a model hide of their sums of gradients on this machine, with one\n"
    "process per rank, with and without ZeRO. Rank 0 prints the result as one JSON object. A\n"
    "variant is timed only if it is bitwise equal to its serial oracle. docs/BENCHMARKS.md "
    "defines\n"
    "every time; tests/bench/overlap_link.sh --layout dp2 sets up the link.";

constexpr char kReplicasExample[] =
    "Example, in two terminals:\n"
    "  stretto-bench replicas --dp 2 --micro-batches 2 --rendezvous /tmp/empty-folder --rank 0\n"
    "  stretto-bench replicas --dp 2 --micro-batches 2 --rendezvous /tmp/empty-folder --rank 1";

}  // namespace

absl::StatusOr<ReplicasOptions> ParseReplicasOptions(const std::vector<std::string>& arguments) {
  ReplicasOptions o;
  SpecFlags flags{.schedule = "megatron_async", .tp = 1, .dp = 2};
  CLI::App app{kReplicasSummary, "stretto-bench replicas"};
  app.footer(kReplicasExample);
  AddSpecFlags(app, flags);
  app.add_option("--dp", flags.dp, "number of replicas")
      ->check(Integer(2, 64))
      ->capture_default_str()
      ->group("Ranks");
  AddRankFlags(app, o.ranks);
  ASSIGN_OR_RETURN(o.help, ParseFlags(app, arguments));
  if (!o.help.empty()) return o;
  o.model = TitleOf(flags);
  ASSIGN_OR_RETURN(o.spec, SpecOfRanks(flags, o.ranks, "replicas"));
  return o;
}

}  // namespace stretto::bench

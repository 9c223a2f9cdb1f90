// SPDX-License-Identifier: Apache-2.0

// Makes the list of orders from the flags: every order of the table, once for each number of chunks
// if it takes several, and with a delay where it takes one.

#include "worker/bench/options/pipeline_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/spec/pipelines.h"
#include "worker/bench/options/costs_flag.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/spec_flags.h"

namespace stretto::bench {
namespace {

constexpr char kPipelineSummary[] =
    "Measures the orders of a pipeline on this machine, with one process per rank. Rank 0 prints\n"
    "the result as one JSON object. An order is timed only if it is bitwise equal to its serial\n"
    "oracle. docs/BENCHMARKS.md defines every time; tests/bench/overlap_link.sh --layout pp2 sets\n"
    "up the link.";

constexpr char kPipelineExample[] =
    "Example, in two terminals:\n"
    "  stretto-bench pipeline --pp 2 --micro-batches 8 --rendezvous /tmp/empty-folder --rank 0\n"
    "  stretto-bench pipeline --pp 2 --micro-batches 8 --rendezvous /tmp/empty-folder --rank 1";

// Every order that can be measured, the plain ones first.
std::vector<OrderChoice> Choices() {
  std::vector<OrderChoice> plain, delayed;
  const auto add = [&](const std::string& order, bool adjustable) {
    plain.push_back({.name = order, .order = order});
    if (!adjustable) return;
    for (WgradDelay delay : {WgradDelay::kSend, WgradDelay::kBubble}) {
      delayed.push_back(
          {.name = absl::StrCat(order, "+", NameOf(delay)), .order = order, .delay = delay});
    }
  };
  for (const PipelineRules& rules : kPipelines) {
    add(rules.name, rules.adjustable);
  }
  add(kSlackOrder, true);
  plain.insert(plain.end(), delayed.begin(), delayed.end());
  return plain;
}

}  // namespace

std::vector<EngineSpec> MostChunksFirst(const std::map<Spread, EngineSpec>& specs) {
  std::vector<EngineSpec> found;
  for (auto of = specs.rbegin(); of != specs.rend(); ++of) found.push_back(of->second);
  return found;
}

absl::StatusOr<PipelineOptions> ParsePipelineOptions(const std::vector<std::string>& arguments) {
  PipelineOptions o;
  SpecFlags flags{.tp = 1, .pp = 2, .micro_batches = 8};
  CLI::App app{kPipelineSummary, "stretto-bench pipeline"};
  app.footer(kPipelineExample);
  AddSpecFlags(app, flags);
  app.add_option("--pp", flags.pp, "number of stages")
      ->check(Integer(2, 64))
      ->capture_default_str()
      ->group("Ranks");
  AddRankFlags(app, o.ranks);
  std::vector<std::string> known, chosen, plain;
  const std::vector<OrderChoice> choices = Choices();
  for (const OrderChoice& choice : choices) {
    known.push_back(choice.name);
    if (choice.delay == WgradDelay::kNone && !IsFolded(choice.order)) plain.push_back(choice.name);
  }
  AddOrdersFlag(app, "--orders",
                absl::StrCat("orders to measure: ", absl::StrJoin(known, ", "),
                             "; slack has warm-ups by measured times, + delays weight gradients, "
                             "and folded runs ",
                             WeavingSchedule(),
                             " in place of --schedule (default: those without + but folded, and "
                             "without --chunks those that take one)"),
                known, chosen);
  std::vector<int> chunks;
  app.add_option("--chunks", chunks,
                 "numbers of chunks of a stage, each a row of the orders that take several")
      ->delimiter(',')
      ->check(Integer(2, 64))
      ->group("Schedule");
  std::string costs;
  AddCostsFlag(app, costs);
  ASSIGN_OR_RETURN(o.help, ParseFlags(app, arguments));
  if (!o.help.empty()) return o;
  o.model = TitleOf(flags);
  RETURN_IF_ERROR(ExpectUnwoven(flags));
  RETURN_IF_ERROR(ExpectEachOnce("--orders", chosen));
  RETURN_IF_ERROR(ExpectChunks("--orders", chosen, chunks));
  ASSIGN_OR_RETURN(o.spec, SpecOfRanks(flags, o.ranks, "stages"));
  for (const std::string& name : chosen.empty() ? plain : chosen) {
    OrderChoice choice = *std::find_if(choices.begin(), choices.end(),
                                       [&](const OrderChoice& each) { return each.name == name; });
    for (const SpecFlags& row : RowsOf(flags, choice.order, chunks)) {
      ASSIGN_OR_RETURN(const EngineSpec spec, SpecOfRanks(row, o.ranks, "stages"));
      choice.spread = {.chunks = row.chunks, .folded = IsFolded(choice.order)};
      if (TakesChunks(name)) choice.name = absl::StrCat(name, " x ", row.chunks);
      o.orders.push_back(choice);
      o.specs.try_emplace(choice.spread, spec);
    }
  }
  ASSIGN_OR_RETURN(o.costs, ReadCosts(costs));
  return o;
}

}  // namespace stretto::bench

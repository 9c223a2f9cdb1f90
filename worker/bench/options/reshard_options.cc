// SPDX-License-Identifier: Apache-2.0

// Defines the flags with CLI11 and lists every combination of the rules that they name.

#include "worker/bench/options/reshard_options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/reshard_cases.h"

namespace stretto::bench {
namespace {

constexpr char kReshardSummary[] =
    "Measures moves of a tensor from one mesh to another, with eight processes on four nodes of\n"
    "two ranks. Rank 0 prints the result as one JSON object. A run counts only if each receiver\n"
    "got its elements. docs/BENCHMARKS.md defines every time; tests/bench/reshard_link.sh makes\n"
    "the nodes and their links.";

const std::vector<std::pair<std::string, ReshardMode>>& Modes() {
  static const auto* modes =
      new std::vector<std::pair<std::string, ReshardMode>>{{"send", ReshardMode::kSend},
                                                           {"chain", ReshardMode::kChain},
                                                           {"gather", ReshardMode::kGather},
                                                           {"auto", ReshardMode::kAuto}};
  return *modes;
}
constexpr char kBalanced[] = "balanced", kFirst[] = "first";
constexpr char kPlanned[] = "planned", kNatural[] = "natural";

std::string CasesHelp() {
  std::string text = "Cases:";
  for (const ReshardCase& at : ReshardCases()) {
    absl::StrAppend(&text, "\n  ", at.name, std::string(12 - std::string(at.name).size(), ' '),
                    at.summary);
  }
  return absl::StrCat(
      text,
      "\nExample, on one machine:\n"
      "  for rank in 0 1 2 3 4 5 6 7; do\n"
      "    stretto-bench reshard --rendezvous /tmp/empty-folder --gbps 10 --rank $rank &\n"
      "  done");
}

struct Lists {
  std::vector<std::string> modes = {"chain"}, senders = {kBalanced}, orders = {kPlanned};
};

void AddRuleFlags(CLI::App& app, ReshardOptions& o, Lists& lists) {
  const auto list = [&](const char* flag, std::vector<std::string>& values,
                        std::vector<std::string> names, const char* help) {
    return app.add_option(flag, values, help)
        ->delimiter(',')
        ->check(OneOf(std::move(names)))
        ->group("Comparisons, of every combination");
  };
  std::vector<std::string> modes;
  for (const auto& [name, mode] : Modes()) modes.push_back(name);
  list("--cases", o.cases, ReshardCaseNames(), "cases to measure (default: all)");
  list("--modes", lists.modes, modes, "how a box gets to its receivers: send, chain, gather, auto")
      ->capture_default_str();
  list("--senders", lists.senders, {kBalanced, kFirst},
       "which holder of a box sends it: balanced, first")
      ->capture_default_str();
  list("--orders", lists.orders, {kPlanned, kNatural}, "order of the boxes: planned, natural")
      ->capture_default_str();
}

void AddReshardFlags(CLI::App& app, ReshardOptions& o) {
  AddRankFlags(app, o.ranks, kReshardRanks);
  app.add_option("--gbps", o.gbps, "rate of a node's interface in Gbit/s, frames included")
      ->check(Number(1e-6, 1e6, "a number from 1e-6 to 1e6"))
      ->required()
      ->group("Ranks");
  app.add_option("--latency-us", o.latency_us, "latency of a message in microseconds, for the plan")
      ->check(Number(0, 1e9, "a number from 0 to 1e9"))
      ->capture_default_str()
      ->group("Ranks");
  app.add_option("--mebibytes", o.mebibytes, "size of the tensor")
      ->check(Integer(1, 1 << 10))
      ->capture_default_str();
}

}  // namespace

absl::StatusOr<ReshardOptions> ParseReshardOptions(const std::vector<std::string>& arguments) {
  ReshardOptions o;
  Lists lists;
  CLI::App app{kReshardSummary, "stretto-bench reshard"};
  app.footer(CasesHelp());
  AddReshardFlags(app, o);
  AddRuleFlags(app, o, lists);
  ASSIGN_OR_RETURN(o.help, ParseFlags(app, arguments));
  if (!o.help.empty()) return o;
  if (o.cases.empty()) o.cases = ReshardCaseNames();
  for (const std::string& name : lists.modes) {
    for (const auto& [mode_name, mode] : Modes()) {
      if (mode_name != name) continue;
      for (const std::string& senders : lists.senders) {
        for (const std::string& order : lists.orders) {
          o.rules.push_back(
              {name,
               senders,
               order,
               {.mode = mode, .balances = senders == kBalanced, .orders = order == kPlanned}});
        }
      }
    }
  }
  return o;
}

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/reshard/command.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "worker/bench/options/reshard_options.h"
#include "worker/bench/ranks/rank_command.h"
#include "worker/bench/reshard/measure.h"

namespace stretto {
namespace {

using bench::ReshardOptions;
using bench::ReshardResult;

nlohmann::ordered_json JsonOf(const ReshardOptions& options,
                              const std::vector<ReshardResult>& results) {
  const double wire = WireSeconds(options);
  nlohmann::ordered_json json = {{"gbps", options.gbps},
                                 {"mebibytes", options.mebibytes},
                                 {"wire_seconds", wire},
                                 {"results", nlohmann::ordered_json::array()}};
  for (const ReshardResult& result : results) {
    nlohmann::ordered_json plain = nlohmann::ordered_json::array();
    for (const bench::Transfer& transfer : result.plain) {
      plain.push_back({transfer.from, transfer.to, transfer.bytes});
    }
    json["results"].push_back({{"case", result.name},
                               {"mode", result.rules.mode},
                               {"senders", result.rules.senders},
                               {"order", result.rules.order},
                               {"seconds", result.median()},
                               {"runs", result.runs},
                               {"over_wire", result.median() / wire},
                               {"over_bound", result.median() / result.bound_seconds},
                               {"planned_seconds", result.planned_seconds},
                               {"plain_transfers", std::move(plain)}});
  }
  return json;
}

std::string TableOf(const ReshardOptions& options, const std::vector<ReshardResult>& results) {
  const double wire = WireSeconds(options);
  std::string text = absl::StrFormat("%d MiB on an interface: %.3f s\n", options.mebibytes, wire);
  absl::StrAppendFormat(&text, "%-12s %-8s %-9s %-8s %9s %10s %10s %12s\n", "case", "mode",
                        "senders", "order", "time", "over wire", "over bound", "plan/bound");
  for (const ReshardResult& result : results) {
    absl::StrAppendFormat(&text, "%-12s %-8s %-9s %-8s %7.3f s %10.3f %10.3f %12.3f\n", result.name,
                          result.rules.mode, result.rules.senders, result.rules.order,
                          result.median(), result.median() / wire,
                          result.median() / result.bound_seconds,
                          result.planned_seconds / result.bound_seconds);
  }
  return text;
}

}  // namespace

int ReshardCommand(const std::vector<std::string>& arguments, std::ostream& out,
                   std::ostream& err) {
  return bench::RunOnRanks(bench::ParseReshardOptions(arguments), bench::MeasureReshard, JsonOf,
                           TableOf, out, err);
}

}  // namespace stretto

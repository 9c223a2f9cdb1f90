// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/replicas/command.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/bench/common/disturbance.h"
#include "worker/bench/options/replicas_options.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/bench/ranks/rank_command.h"
#include "worker/bench/replicas/measure.h"

namespace stretto {
namespace {

using bench::ReplicasOptions;
using bench::ReplicasResult;
using bench::VariantResult;

nlohmann::ordered_json JsonOf(const ReplicasOptions& options, const ReplicasResult& measured) {
  nlohmann::ordered_json json = {{"model", options.model}, {"work", bench::WorkOf(options.spec)}};
  json.update({{"dp_size", options.spec.dp_size}, {"variants", nlohmann::ordered_json::array()}});
  bench::AddTo(&json, measured.rounds);
  for (const VariantResult& result : measured.variants) {
    json["variants"].push_back(
        {{"name", result.name},
         {"schedule", result.spec.schedule.name},
         {"zero", result.spec.zero},
         {"step_seconds", result.median()},
         {"steps", result.steps},
         {"compute_seconds", result.compute},
         {"comm_seconds", result.comm},
         {"comm_cpu_seconds", result.comm_cpu},
         {"ideal_seconds", result.ideal()},
         {"hidden", bench::RatioJson(result.hidden(), measured.rounds.disturbed)},
         {"hidden_interval", bench::RatioJson(result.hidden_interval, measured.rounds.disturbed)},
         {"most_hidden", bench::RatioJson(result.most_hidden(), measured.rounds.disturbed)},
         {"optimizer_bytes", result.optimizer_bytes}});
  }
  return json;
}

std::string TableOf(const ReplicasOptions&, const ReplicasResult& measured) {
  std::string text = absl::StrFormat("%-12s %12s %12s %12s %12s %12s %12s %12s %16s\n", "variant",
                                     "step", "step/ideal", "computation", "comm", "hidden",
                                     "at most", "speed-up", "optimizer");
  const auto ratio = [&](double value) {
    return bench::RatioText(value, measured.rounds.disturbed);
  };
  const auto percent = [&](double value) {
    return bench::PercentText(value, measured.rounds.disturbed);
  };
  for (const VariantResult& result : measured.variants) {
    absl::StrAppendFormat(
        &text, "%-12s %9.1f ms %12s %9.1f ms %9.1f ms %12s %12s %12s %12.1f MiB\n", result.name,
        result.median() * 1e3, ratio(result.median() / result.ideal()), result.compute * 1e3,
        result.comm * 1e3, percent(result.hidden()), percent(result.most_hidden()),
        ratio(measured.variants.front().median() / result.median()),
        static_cast<double>(result.optimizer_bytes) / (1 << 20));
  }
  return absl::StrCat(text, bench::ToText(measured.rounds));
}

}  // namespace

int ReplicasCommand(const std::vector<std::string>& arguments, std::ostream& out,
                    std::ostream& err) {
  return bench::RunOnRanks(bench::ParseReplicasOptions(arguments), bench::MeasureReplicas, JsonOf,
                           TableOf, out, err);
}

}  // namespace stretto

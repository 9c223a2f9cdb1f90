// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/pipeline/command.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/spec/pipelines.h"
#include "worker/bench/common/disturbance.h"
#include "worker/bench/options/pipeline_options.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/bench/pipeline/measure.h"
#include "worker/bench/ranks/rank_command.h"

namespace stretto {
namespace {

using bench::OrderResult;
using bench::PipelineOptions;
using bench::PipelineResult;

// The order that others are compared with; null if it was not measured.
const OrderResult* BaselineOf(const PipelineResult& result) {
  const auto blocks = [](const OrderResult& result) {
    const PipelineRules* rules = FindPipeline(result.order.order);
    return rules != nullptr && rules->blocking;
  };
  const auto found = std::find_if(result.orders.begin(), result.orders.end(), blocks);
  return found == result.orders.end() ? nullptr : &*found;
}

nlohmann::ordered_json JsonOf(const PipelineOptions& options, const PipelineResult& result) {
  nlohmann::ordered_json json = {{"model", options.model}, {"work", bench::WorkOf(options.spec)}};
  json.update(
      {{"schedule", options.spec.schedule.name},
       {"pp_size", options.spec.pp_size},
       {"dp_size", options.spec.dp_size},
       {"tp_size", options.spec.tp_size},
       {"forward_seconds", result.parts.forward_seconds},
       {"backward_seconds", result.parts.backward_seconds},
       {"transfer_seconds", result.parts.transfer_seconds},
       {"transfer_over_forward", result.parts.transfer_seconds / result.parts.forward_seconds},
       {"orders", nlohmann::ordered_json::array()}});
  bench::AddTo(&json, result.rounds);
  for (const OrderResult& order : result.orders) {
    json["orders"].push_back({{"order", order.order.name},
                              {"schedule", order.schedule},
                              {"chunks", order.order.spread.chunks},
                              {"warm_ups", order.warm_ups},
                              {"step_seconds", order.median()},
                              {"steps", order.steps},
                              {"ideal_seconds", order.ideal},
                              {"simulated_seconds", nullptr},
                              {"activation_bytes", order.activation_bytes}});
    if (order.simulated) json["orders"].back()["simulated_seconds"] = *order.simulated;
  }
  return json;
}

std::string TableOf(const PipelineOptions&, const PipelineResult& result) {
  const bench::PipelineParts& parts = result.parts;
  std::string text =
      absl::StrFormat("forward %.1f ms, backward %.1f ms, transfer %.1f ms (%.2f of forward)\n",
                      parts.forward_seconds * 1e3, parts.backward_seconds * 1e3,
                      parts.transfer_seconds * 1e3, parts.transfer_seconds / parts.forward_seconds);
  const auto ratio = [&](double value) { return bench::RatioText(value, result.rounds.disturbed); };
  absl::StrAppendFormat(&text, "%-22s %12s %12s %12s %12s %12s\n", "order", "step", "step/ideal",
                        "simulated/t", "speed-up", "of model's");
  const OrderResult* baseline = BaselineOf(result);
  for (const OrderResult& order : result.orders) {
    absl::StrAppendFormat(&text, "%-22s %9.1f ms %12s %12s", order.order.name, order.median() * 1e3,
                          ratio(order.median() / order.ideal),
                          order.simulated ? ratio(*order.simulated / order.median()) : "-");
    if (baseline != nullptr) {
      const double measured = baseline->median() / order.median();
      absl::StrAppendFormat(
          &text, " %12s %12s", ratio(measured),
          order.simulated ? ratio(measured / (*baseline->simulated / *order.simulated)) : "-");
    }
    text += "\n";
  }
  return absl::StrCat(text, bench::ToText(result.rounds));
}

}  // namespace

int PipelineCommand(const std::vector<std::string>& arguments, std::ostream& out,
                    std::ostream& err) {
  return bench::RunOnRanks(bench::ParsePipelineOptions(arguments), bench::MeasurePipeline, JsonOf,
                           TableOf, out, err);
}

}  // namespace stretto

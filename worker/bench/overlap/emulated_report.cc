// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/emulated_report.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/bench/overlap/report.h"

namespace stretto::bench {

std::string Describe(const EmulatedLinkOptions& link) {
  return absl::StrFormat("emulated link: alpha %s, beta %g GB/s, k %d",
                         absl::FormatDuration(link.latency), link.bytes_per_second * 1e-9,
                         link.blocks);
}

std::string ToText(const Comparison& comparison) {
  std::string text =
      absl::StrFormat("%-44s %10s %7s %7s %7s %7s %7s %7s\n", "schedule", "t_overlap", "/ideal",
                      "/serial", "tax", "occupy", "hid fwd", "hid bwd");
  const auto ratio = [&](double value) { return RatioText(value, comparison.rounds.disturbed); };
  const auto percent = [&](double value) {
    return PercentText(value, comparison.rounds.disturbed);
  };
  for (const ScheduleResult& result : comparison.schedules) {
    const Figures& f = result.figures;
    absl::StrAppendFormat(
        &text, "%-44s %7.2f ms %7s %7s %7s %7s %7s %7s\n", Describe(result.candidate.choice),
        f.step.t_overlap * 1e3, ratio(f.step.t_overlap / f.ideal()),
        ratio(f.step.t_overlap / f.step.t_serial), ratio(f.step.t_comp_sliced / f.step.t_comp),
        ratio(result.t_occupy.value_or(0) / f.step.t_comp_sliced), percent(f.forward.hidden()),
        percent(f.backward.hidden()));
  }
  return absl::StrCat(text, ToText(comparison.rounds));
}

std::string ToJson(const OverlapOptions& options, const EmulatedReport& report,
                   const Machine& machine) {
  using Json = nlohmann::ordered_json;
  Json json = {{"machine", ToJson(machine)}, {"links", Json::array()}};
  for (const EmulatedComparison& each : report) {
    Json link = {{"kind", "emulated link"},
                 {"latency_seconds", absl::ToDoubleSeconds(each.link.latency)},
                 {"bytes_per_second", each.link.bytes_per_second},
                 {"blocks", each.link.blocks}};
    Json comparison = Json::parse(ToJson(options, each.comparison));
    comparison["link"] = std::move(link);
    json["links"].push_back(std::move(comparison));
  }
  return json.dump(2);
}

}  // namespace stretto::bench

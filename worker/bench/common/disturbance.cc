// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/common/disturbance.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_format.h"

namespace stretto::bench {

std::vector<size_t> QuietOf(absl::Span<const double> seconds) {
  const double most = *std::min_element(seconds.begin(), seconds.end()) * (1 + kMostSpread);
  std::vector<size_t> quiet;
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (seconds[i] <= most) quiet.push_back(i);
  }
  return quiet;
}

std::vector<Disturbance> DisturbancesOf(std::vector<ProgramRounds> programs) {
  std::vector<Disturbance> found;
  for (ProgramRounds& rounds : programs) {
    if (QuietOf(rounds.seconds).size() == rounds.seconds.size()) continue;
    found.push_back({std::move(rounds.program), SpreadOf(rounds.seconds)});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Disturbance& a, const Disturbance& b) { return a.spread > b.spread; });
  return found;
}

std::string ToText(absl::Span<const Disturbance> disturbances) {
  std::string text;
  for (const Disturbance& each : disturbances) {
    absl::StrAppendFormat(&text,
                          "disturbed: rounds of %s differ by %.1f %%, expected at most %.0f %%\n",
                          each.program, 100 * each.spread, 100 * kMostSpread);
  }
  if (!text.empty())
    text += "The run was disturbed: it has no ratios. Repeat it on an idle machine.\n";
  return text;
}

void AddTo(nlohmann::ordered_json* report, absl::Span<const Disturbance> disturbances) {
  (*report)["most_spread"] = kMostSpread;
  nlohmann::ordered_json& disturbed = (*report)["disturbed"] = nlohmann::ordered_json::array();
  for (const Disturbance& each : disturbances)
    disturbed.push_back({{"program", each.program}, {"spread", each.spread}});
}

std::string RatioText(double ratio, absl::Span<const Disturbance> disturbances) {
  return disturbances.empty() ? absl::StrFormat("%.3f", ratio) : "-";
}

std::string PercentText(double ratio, absl::Span<const Disturbance> disturbances) {
  return disturbances.empty() ? absl::StrFormat("%.1f %%", 100 * ratio) : "-";
}

nlohmann::ordered_json RatioJson(double ratio, absl::Span<const Disturbance> disturbances) {
  return disturbances.empty() ? nlohmann::ordered_json(ratio) : nlohmann::ordered_json(nullptr);
}

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/figures.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace stretto::bench {
namespace {

constexpr double kLeastRatio = 0.99;

}  // namespace

double PhaseMedians::ideal() const { return std::max(t_comp + comm_cpu, t_comm); }

double PhaseMedians::bound() const {
  return std::max(std::min(t_comp, t_comp_sliced) + comm_cpu, t_comm);
}

double PhaseMedians::hidden_saved() const {
  return t_comm > 0 ? (t_serial_sliced - t_overlap) / t_comm : 0;
}

double PhaseMedians::hidden() const { return std::min(hidden_interval, hidden_saved()); }

std::string MeasuringError(const std::string& name, double seconds, const std::string& bound_name,
                           double bound) {
  if (seconds >= kLeastRatio * bound) return "";
  return absl::StrFormat("%s: found %.4f s, expected at least %.2f of %s, %.4f s", name, seconds,
                         kLeastRatio, bound_name, bound);
}

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0
#include "proto/base/units.h"

#include <cmath>

#include "absl/strings/str_format.h"

namespace stretto {

std::string FormatBytes(int64_t bytes) {
  if (bytes >= kGiB) return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / kGiB);
  if (bytes >= kMiB) return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / kMiB);
  if (bytes >= kKiB) return absl::StrFormat("%.1f KiB", static_cast<double>(bytes) / kKiB);
  return absl::StrFormat("%d B", bytes);
}

std::string FormatDuration(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 0.1) return absl::StrFormat("%.1fms", seconds * 1e3);
  if (seconds < 100) return absl::StrFormat("%.1fs", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
}

std::string FormatCount(double count) {
  if (count >= 1e9) return absl::StrFormat("%.1fG", count / 1e9);
  if (count >= 1e6) return absl::StrFormat("%.1fM", count / 1e6);
  if (count >= 1e3) return absl::StrFormat("%.1fk", count / 1e3);
  return absl::StrFormat("%.0f", count);
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sizes and rates with their unit in the name, and their text for people.

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace stretto {

inline constexpr int64_t kKiB = int64_t{1} << 10;
inline constexpr int64_t kMiB = int64_t{1} << 20;
inline constexpr int64_t kGiB = int64_t{1} << 30;

// "1.5 MiB"
std::string FormatBytes(int64_t bytes);
// "2m05s", "41.3s", "12.0ms"
std::string FormatDuration(absl::Duration duration);
// "12.4k", "3.1M"
std::string FormatCount(double count);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a mistyped word was meant to be.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto::cli {

// The candidate that `word` most likely means, or empty when none is near.
std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace stretto::cli

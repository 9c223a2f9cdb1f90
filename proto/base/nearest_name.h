// SPDX-License-Identifier: Apache-2.0
#pragma once
// Suggestions for mistyped words.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto {

// Returns the candidate that `word` most likely means: another word for it ("gpu" for "cuda"), or
// the one with the nearest spelling. Empty if there is neither.
std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How YAML reads a scalar that is not quoted.

#include "absl/strings/string_view.h"

namespace stretto {

// Returns true for a decimal number. Infinity and "not a number" are none.
bool IsYamlNumber(absl::string_view text);

// Returns true for text that YAML 1.2 reads as a number, a truth value or null if it is not quoted.
bool LooksLikeNonString(absl::string_view text);

}  // namespace stretto

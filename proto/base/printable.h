// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes foreign text safe for a terminal, which interprets some bytes as commands.

#include <string>

#include "absl/strings/string_view.h"

namespace stretto {

// Replaces control characters, including U+0080 to U+009F, by '?'; keeps line breaks and tabs.
std::string Printable(absl::string_view text);

}  // namespace stretto

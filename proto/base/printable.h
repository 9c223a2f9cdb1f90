// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text from elsewhere on its way to a terminal, which obeys what some bytes say.

#include <string>

#include "absl/strings/string_view.h"

namespace stretto {

// Control characters, U+0080 to U+009F among them, as '?'; line breaks and tabs stay.
std::string Printable(absl::string_view text);

}  // namespace stretto

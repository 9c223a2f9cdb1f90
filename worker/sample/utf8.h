// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decodes UTF-8 that arrives in pieces.

#include <string>

namespace stretto {

inline constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

// Removes complete characters from the front of `bytes` and returns them; each maximal part that is
// not UTF-8 becomes U+FFFD (Unicode 15, section 3.9). An incomplete character at the end remains in
// `bytes`, unless `all`.
std::string TakeUtf8(std::string* bytes, bool all);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes that come in pieces, as UTF-8.

#include <string>

namespace stretto {

inline constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

// Removes whole characters from the front of `bytes` and returns them, each maximal part that is no
// UTF-8 as U+FFFD (Unicode 15, section 3.9). The beginning of a character at the very end stays in
// `bytes`, unless `all`.
std::string TakeUtf8(std::string* bytes, bool all);

}  // namespace stretto

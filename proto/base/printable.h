// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one rule for text of others, which ends up on terminals and in logs: a terminal takes some
// characters for commands, a new line begins something that nobody said, and a change of direction
// shows another text than the one that is there.
//
// Not printable are the control characters U+0000 to U+001F (among them tab and new line) and
// U+007F to U+009F, the separators of lines U+2028 and U+2029, the marks of direction U+061C,
// U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069, the mark of byte order U+FEFF, which
// nobody sees, and bytes that are not UTF-8.

#include <string>

#include "absl/strings/string_view.h"

namespace stretto {

// Whether all of it is printable.
bool IsPrintable(absl::string_view text);

// Writes what is not printable as "\n", "\t", "\r", "\x1b" or "\u202e", for text that must stay one
// line. A backslash is left as it is, so escaped text stays the same when it is escaped again.
std::string Escaped(absl::string_view text);

// Replaces each character that is not printable by '?', but keeps new lines and tabs, for text of
// several lines.
std::string Printable(absl::string_view text);

// At most `bytes` of `text` from its beginning, without half a character at the end.
absl::string_view Prefix(absl::string_view text, size_t bytes);

}  // namespace stretto

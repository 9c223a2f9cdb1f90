// SPDX-License-Identifier: Apache-2.0
#pragma once
// A regular expression over UTF-8, by PCRE2, with the syntax in which tokenizers define words. \s,
// \p{L} and the like are Unicode's; \s also matches U+180E, which is not white space since Unicode
// 6.3.

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

// Immutable and thread-safe.
class Pattern {
 public:
  // Errors: InvalidArgument, with PCRE2's message and the place.
  static absl::StatusOr<Pattern> Compile(const std::string& expression);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  struct Range {
    size_t begin = 0, end = 0;
  };
  // Returns the first match at or after `from`; begin = end = text.size() if there is none. `text`
  // must be valid UTF-8. Errors: ResourceExhausted (the expression needs too many steps on this
  // text).
  absl::StatusOr<Range> Find(absl::string_view text, size_t from) const;

 private:
  struct Code;
  explicit Pattern(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

// Errors: InvalidArgument, naming the first byte that is not UTF-8.
absl::Status CheckUtf8(absl::string_view text);

// Returns a regular expression that matches exactly `text`.
std::string Quoted(absl::string_view text);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace stretto {
namespace {

std::string ErrorText(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

struct MatchData {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  ~MatchData() { pcre2_match_data_free(data); }
};

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Pattern::Pattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

absl::StatusOr<Pattern> Pattern::Compile(const std::string& expression) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code->code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("regular expression, character ", offset, ": ",
                                                   ErrorText(error), " in ", expression));
  }
  // Ignores errors: without a just-in-time compiler the interpreter gives the same matches, more
  // slowly.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  return Pattern(std::move(code));
}

absl::StatusOr<Pattern::Range> Pattern::Find(absl::string_view text, size_t from) const {
  static thread_local MatchData match;
  const int found = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                from, PCRE2_NO_UTF_CHECK, match.data, nullptr);
  if (found == PCRE2_ERROR_NOMATCH) return Range{text.size(), text.size()};
  if (found < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("regular expression at byte ", from, ": ", ErrorText(found)));
  }
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.data);
  return Range{range[0], range[1]};
}

absl::Status CheckUtf8(absl::string_view text) {
  static const pcre2_code* const empty = [] {
    int error = 0;
    PCRE2_SIZE offset = 0;
    return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(""), 0, PCRE2_UTF, &error, &offset, nullptr);
  }();
  static thread_local MatchData match;
  const int found = pcre2_match(empty, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                PCRE2_ANCHORED, match.data, nullptr);
  if (found >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("byte ", pcre2_get_startchar(match.data),
                                                 ": found no UTF-8 (", ErrorText(found),
                                                 "), expected UTF-8"));
}

std::string Quoted(absl::string_view text) {
  std::string quoted;
  for (const char c : text) {
    // A backslash makes any ASCII character literal that is not a letter or digit.
    if (static_cast<unsigned char>(c) < 0x80 && !absl::ascii_isalnum(c)) quoted += '\\';
    quoted += c;
  }
  return quoted;
}

}  // namespace stretto

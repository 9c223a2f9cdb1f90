// SPDX-License-Identifier: Apache-2.0
#include "proto/document/plain_scalar.h"

#include <string>

#include "absl/strings/ascii.h"

namespace stretto {
namespace {

// Removes the digits at the start, and returns their number.
size_t TakeDigits(absl::string_view* text) {
  size_t count = 0;
  while (count < text->size() && absl::ascii_isdigit((*text)[count])) ++count;
  text->remove_prefix(count);
  return count;
}

void TakeSign(absl::string_view* text) {
  if (!text->empty() && (text->front() == '-' || text->front() == '+')) text->remove_prefix(1);
}

}  // namespace

bool IsYamlNumber(absl::string_view text) {
  TakeSign(&text);
  size_t digits = TakeDigits(&text);
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    digits += TakeDigits(&text);
  }
  if (digits == 0) return false;
  if (!text.empty() && (text.front() == 'e' || text.front() == 'E')) {
    text.remove_prefix(1);
    TakeSign(&text);
    return TakeDigits(&text) > 0 && text.empty();
  }
  return text.empty();
}

bool LooksLikeNonString(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return IsYamlNumber(text) || lower == "true" || lower == "false" || lower == "null" ||
         text == "~" || lower == ".nan" || lower == ".inf" || lower == "-.inf" || lower == "+.inf";
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/utf8.h"

#include <cstddef>
#include <utility>

namespace stretto {
namespace {

// Returns the length of the character that `lead` begins; 0 if it begins none.
size_t LengthOf(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Whether `byte` may follow `lead` (no overlong forms, no surrogates, nothing above U+10FFFF).
bool MayBeSecond(unsigned char lead, unsigned char byte) {
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return byte >= low && byte <= high;
}

// Returns the number of bytes at `at` that are a character or the beginning of one; 0 if none.
size_t Follow(const std::string& bytes, size_t at, size_t length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[at + i]); };
  if (length == 0) return 0;
  size_t found = 1;
  while (found < length && at + found < bytes.size() &&
         (found == 1 ? MayBeSecond(byte(0), byte(1)) : (byte(found) & 0xC0) == 0x80)) {
    ++found;
  }
  return found;
}

}  // namespace

std::string TakeUtf8(std::string* bytes, bool all) {
  std::string text;
  size_t at = 0;
  while (at < bytes->size()) {
    const size_t length = LengthOf(static_cast<unsigned char>((*bytes)[at]));
    const size_t found = Follow(*bytes, at, length);
    if (found > 0 && found == length) {
      text.append(*bytes, at, found);
      at += found;
      continue;
    }
    if (!all && found > 0 && at + found == bytes->size()) break;
    text += kReplacement;
    at += found > 0 ? found : 1;
  }
  bytes->erase(0, at);
  return text;
}

}  // namespace stretto

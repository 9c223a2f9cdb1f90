// SPDX-License-Identifier: Apache-2.0

// Reads UTF-8 one character at a time. What is no character (a stray byte, an overlong form, a
// surrogate) is taken as one byte that is not printable.

#include "proto/base/printable.h"

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/str_format.h"

namespace stretto {
namespace {

struct Character {
  int32_t code = -1;  // -1: no UTF-8
  size_t bytes = 1;
};

// The character at the beginning of `text`, which is not empty.
Character First(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  int32_t code = lead & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = code < (bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80);
  if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, bytes};
}

bool IsSafe(int32_t code) {
  constexpr std::array<std::pair<int32_t, int32_t>, 8> kUnsafe = {{{-1, 0x1f},
                                                                   {0x7f, 0x9f},
                                                                   {0x61c, 0x61c},
                                                                   {0x200e, 0x200f},
                                                                   {0x2028, 0x2029},
                                                                   {0x202a, 0x202e},
                                                                   {0x2066, 0x2069},
                                                                   {0xfeff, 0xfeff}}};
  for (const auto& [first, last] : kUnsafe) {
    if (code >= first && code <= last) return false;
  }
  return true;
}

// Copies `text`, with replace(character, its bytes, &out) for each that is not printable.
template <class Replace>
std::string Replaced(absl::string_view text, Replace replace) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character next = First(text);
    const absl::string_view bytes = text.substr(0, next.bytes);
    if (IsSafe(next.code)) {
      out.append(bytes.data(), bytes.size());
    } else {
      replace(next.code, bytes, &out);
    }
    text.remove_prefix(next.bytes);
  }
  return out;
}

}  // namespace

bool IsPrintable(absl::string_view text) {
  while (!text.empty()) {
    const Character next = First(text);
    if (!IsSafe(next.code)) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

std::string Escaped(absl::string_view text) {
  return Replaced(text, [](int32_t code, absl::string_view bytes, std::string* out) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    if (code == '\n') {
      *out += "\\n";
    } else if (code == '\t') {
      *out += "\\t";
    } else if (code == '\r') {
      *out += "\\r";
    } else if (code < 0x80) {
      absl::StrAppendFormat(out, "\\x%02x", byte);
    } else {
      absl::StrAppendFormat(out, "\\u%04x", code);
    }
  });
}

std::string Printable(absl::string_view text) {
  return Replaced(text, [](int32_t code, absl::string_view, std::string* out) {
    *out += code == '\n' || code == '\t' ? static_cast<char>(code) : '?';
  });
}

absl::string_view Prefix(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/byte_level.h"

#include <array>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stretto {
namespace {

constexpr int kCodePoints = 0x144;  // one more than the last of the alphabet

constexpr bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

constexpr std::array<int, kCodePoints> ByteOfCodePoint() {
  std::array<int, kCodePoints> bytes = {};
  for (int& byte : bytes) byte = -1;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) bytes[StandsForItself(byte) ? byte : next++] = byte;
  return bytes;
}

constexpr std::array<int, kCodePoints> kByteOf = ByteOfCodePoint();

}  // namespace

absl::StatusOr<std::string> BytesOfPiece(absl::string_view piece) {
  std::string bytes;
  for (size_t i = 0; i < piece.size();) {
    // Every character of the alphabet is one or two bytes of UTF-8.
    const auto first = static_cast<unsigned char>(piece[i]);
    int code_point = first;
    size_t length = 1;
    if (first >= 0xc2 && first < 0xe0 && i + 1 < piece.size()) {
      code_point = (first & 0x1f) << 6 | (static_cast<unsigned char>(piece[i + 1]) & 0x3f);
      length = 2;
    } else if (first >= 0x80) {
      code_point = kCodePoints;
    }
    if (code_point >= kCodePoints || kByteOf[code_point] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("piece \"", absl::CHexEscape(piece), "\", byte ", i,
                       ": found a character outside the byte-level alphabet"));
    }
    bytes += static_cast<char>(kByteOf[code_point]);
    i += length;
  }
  return bytes;
}

}  // namespace stretto

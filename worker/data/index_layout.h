// SPDX-License-Identifier: Apache-2.0
#pragma once
// Byte offsets in an .idx file, shared by its reader and its writer.

#include <cstdint>

namespace stretto {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read and written in place");

inline constexpr char kIndexMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
inline constexpr int64_t kVersionOffset = 9;
inline constexpr int64_t kTypeOffset = 17;
inline constexpr int64_t kSequencesOffset = 18;
inline constexpr int64_t kDocumentsOffset = 26;
inline constexpr int64_t kIndexHeaderBytes = 34;
inline constexpr int64_t kSequenceBytes = 12;  // an i32 length and an i64 pointer

constexpr int64_t LengthOffset(int64_t sequence) { return kIndexHeaderBytes + 4 * sequence; }
constexpr int64_t PointerOffset(int64_t sequences, int64_t sequence) {
  return kIndexHeaderBytes + 4 * sequences + 8 * sequence;
}
constexpr int64_t DocumentOffset(int64_t sequences, int64_t document) {
  return kIndexHeaderBytes + kSequenceBytes * sequences + 8 * document;
}

}  // namespace stretto

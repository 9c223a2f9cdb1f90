// SPDX-License-Identifier: Apache-2.0

// Reads tokens of any type, widens them to i32, and names the first one that is outside the
// vocabulary. The loops are templates, so that each type gets its own.

#include "worker/data/token_file.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"

namespace stretto {
namespace {

// Copies and widens. Returns the index of the first token outside [0, vocab_size), or the count.
template <class T>
size_t Widen(const char* from, int32_t vocab_size, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto token = static_cast<int64_t>(Load<T>(from + i * sizeof(T)));
    if (token < 0 || token >= vocab_size) return i;
    out[i] = static_cast<int32_t>(token);
  }
  return out.size();
}

size_t WidenAs(TokenType type, const char* from, int32_t vocab_size, std::span<int32_t> out) {
  switch (type) {
    case TokenType::kU8:
      return Widen<uint8_t>(from, vocab_size, out);
    case TokenType::kI8:
      return Widen<int8_t>(from, vocab_size, out);
    case TokenType::kI16:
      return Widen<int16_t>(from, vocab_size, out);
    case TokenType::kI32:
      return Widen<int32_t>(from, vocab_size, out);
    case TokenType::kI64:
      return Widen<int64_t>(from, vocab_size, out);
    case TokenType::kU16:
      return Widen<uint16_t>(from, vocab_size, out);
    case TokenType::kU32:
      return Widen<uint32_t>(from, vocab_size, out);
  }
  STRETTO_CHECK(false);
}

int64_t TokenAt(TokenType type, const char* from) {
  switch (type) {
    case TokenType::kU8:
      return Load<uint8_t>(from);
    case TokenType::kI8:
      return Load<int8_t>(from);
    case TokenType::kI16:
      return Load<int16_t>(from);
    case TokenType::kI32:
      return Load<int32_t>(from);
    case TokenType::kI64:
      return Load<int64_t>(from);
    case TokenType::kU16:
      return Load<uint16_t>(from);
    case TokenType::kU32:
      return Load<uint32_t>(from);
  }
  STRETTO_CHECK(false);
}

}  // namespace

size_t SizeOf(TokenType type) {
  switch (type) {
    case TokenType::kU8:
    case TokenType::kI8:
      return 1;
    case TokenType::kI16:
    case TokenType::kU16:
      return 2;
    case TokenType::kI32:
    case TokenType::kU32:
      return 4;
    case TokenType::kI64:
      return 8;
  }
  STRETTO_CHECK(false);
}

const char* NameOf(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return "u8";
    case TokenType::kI8:
      return "i8";
    case TokenType::kI16:
      return "i16";
    case TokenType::kI32:
      return "i32";
    case TokenType::kI64:
      return "i64";
    case TokenType::kU16:
      return "u16";
    case TokenType::kU32:
      return "u32";
  }
  STRETTO_CHECK(false);
}

TokenType TokenTypeFor(int32_t vocab_size) {
  return vocab_size < 65500 ? TokenType::kU16 : TokenType::kI32;
}

absl::Status TokenFile::Read(int64_t byte, int32_t vocab_size, std::span<int32_t> out) const {
  const size_t done = WidenAs(type, bytes.data() + byte, vocab_size, out);
  if (done == out.size()) return absl::OkStatus();
  const auto item = static_cast<int64_t>(SizeOf(type));
  const int64_t offset = byte + static_cast<int64_t>(done) * item;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": token ", (offset - first) / item, " at byte ", offset, ": found ",
      TokenAt(type, bytes.data() + offset), ", expected a token in [0, ", vocab_size, ")"));
}

}  // namespace stretto

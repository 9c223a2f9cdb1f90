// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens in files: integers of one type, little-endian and possibly unaligned.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "worker/data/mapped_file.h"

namespace stretto {

// Values up to 8 are the codes of Megatron's format. Its floating-point codes (6, 7) are not for
// tokens; kU32 is llm.c's and has no code there.
enum class TokenType : uint8_t { kU8 = 1, kI8 = 2, kI16 = 3, kI32 = 4, kI64 = 5, kU16 = 8, kU32 };

size_t SizeOf(TokenType type);
const char* NameOf(TokenType type);

// Megatron's rule: u16 below 65,500 tokens, else i32.
TokenType TokenTypeFor(int32_t vocab_size);

struct TokenFile {
  std::string path;
  MappedFile bytes;
  TokenType type = TokenType::kU16;
  int64_t first = 0;  // offset of the first token in bytes

  // Copies tokens, starting at byte `byte`; all must be within the file. Errors: InvalidArgument (a
  // token outside [0, vocab_size); names file, byte offset, token).
  absl::Status Read(int64_t byte, int32_t vocab_size, std::span<int32_t> out) const;
};

}  // namespace stretto

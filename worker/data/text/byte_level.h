// SPDX-License-Identifier: Apache-2.0
#pragma once
// The alphabet in which tokenizer.json writes bytes: printable Latin-1 as itself, every other byte
// as the next code point from U+0100 on (GPT-2's encoder.py, bytes_to_unicode).

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

// Decodes "Ġthe" to " the". Errors: InvalidArgument (a character that represents no byte, with its
// place).
absl::StatusOr<std::string> BytesOfPiece(absl::string_view piece);

}  // namespace stretto

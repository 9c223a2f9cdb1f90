// SPDX-License-Identifier: Apache-2.0
#pragma once
// The note beside a data set: its tokenizer, and whether it has a mask.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto {

struct TokenizerInfo {
  std::string kind;             // "bytes", "sentencepiece" or "byte_pair"
  int32_t vocab_size = 0;       // tokens are in [0, vocab_size)
  int32_t end_of_document = 0;  // appended to every document
  std::string hash;             // SHA-256 of the model file (for "bytes": of kind), in hexadecimal

  bool operator==(const TokenizerInfo&) const = default;
};

struct DataNote {
  TokenizerInfo tokenizer;
  bool masked = false;  // not all tokens are trained on (mask.h)
};

// PREFIX.tokenizer.json, written atomically and read strictly: every field and no other. Only the
// note of a data set with a mask has the field "masked", so that older releases, which know no
// masks, refuse it. Errors of reading: NotFound, InvalidArgument (names file, found and expected).
absl::Status WriteTokenizerInfo(const std::string& prefix, const TokenizerInfo& info,
                                bool masked = false);
absl::StatusOr<DataNote> ReadDataNote(const std::string& prefix);
absl::StatusOr<TokenizerInfo> ReadTokenizerInfo(const std::string& prefix);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto data inspect`: what a data set holds.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {

struct InspectOptions {
  std::string name;       // as OpenTokens takes it
  int64_t documents = 3;  // the first so many are shown
  int64_t tokens = 16;    // of each, the first so many
  bool check = false;     // read every token
  bool json = false;
  const Tokenizer* tokenizer = nullptr;  // shows text too
};

// The report, for people or as JSON: type and number of tokens, documents and their lengths, the
// tokenizer's note, first documents. The vocabulary is the note's, else the tokenizer's. Errors:
// those of OpenTokens and of the note, InvalidArgument (`check`: a token outside the vocabulary,
// with file and byte; a tokenizer that is not the one of the note).
absl::StatusOr<std::string> InspectDataset(const InspectOptions& options);

}  // namespace stretto

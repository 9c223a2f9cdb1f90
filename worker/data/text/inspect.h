// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto data inspect`: reports the contents of a data set.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/document/document.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {

struct InspectOptions {
  std::string name;       // in the form of OpenTokens
  int64_t documents = 3;  // number of first documents to show
  int64_t tokens = 16;    // number of first tokens to show of each
  bool check = false;     // read every token
  OutputFormat format = OutputFormat::kTable;
  const Tokenizer* tokenizer = nullptr;  // optional; shows text too
};

// Returns the report as text or as a document: type and number of tokens, documents and their
// lengths, the tokenizer's note, how many tokens are trained on where there is a mask, first
// documents. The vocabulary is the note's, else the tokenizer's. Errors: those of OpenTokens, of
// the note and of OpenMask, InvalidArgument (`check`: a token outside the vocabulary, with file and
// byte; a tokenizer that is not the note's).
absl::StatusOr<std::string> InspectDataset(const InspectOptions& options);

}  // namespace stretto

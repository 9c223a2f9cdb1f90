// SPDX-License-Identifier: Apache-2.0
#pragma once
// The work of `stretto sample`.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/document/document.h"
#include "worker/sample/token_chooser.h"

namespace stretto {

struct SampleOptions {
  std::string model;  // in the form of OpenModel
  // The folder that the model's files may not leave by symbolic links; empty: they may.
  std::string root;
  std::string prompt;  // empty: the beginning of a document
  // Used instead of `prompt`. Without a named tokenizer, the output is tokens too.
  std::vector<int32_t> prompt_ids;
  int64_t tokens = 100;
  ChoiceOptions choice = {.temperature = 0.8, .top_p = 0.95};
  std::string tokenizer, end_of_document;  // for MakeTokenizer; empty: the model's own
  int threads = 0;                         // 0: one per core
  bool stats = false;
  OutputFormat format = OutputFormat::kTable;
  std::string logits;  // file; empty: none
};

// Writes to stdout as tokens are generated, and statistics to stderr. When `interrupted()` becomes
// true, it ends with Cancelled at the next layer and keeps the output so far. Errors: those of
// opening and loading model and tokenizer, InvalidArgument (options, a prompt that the tokenizer
// cannot encode, a tokenizer that is not the model's), OutOfRange (a prompt that is longer than the
// model's sequence length), FailedPrecondition (a CPU that the kernels do not support), those of
// writing.
absl::Status Sample(const SampleOptions& options, const std::function<bool()>& interrupted);

}  // namespace stretto

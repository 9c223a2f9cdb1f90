// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto sample` does.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/sample/token_chooser.h"

namespace stretto {

struct SampleOptions {
  std::string model;   // as OpenModel takes it
  std::string prompt;  // empty: the beginning of a document
  // Instead of `prompt`: tokens, which without a named tokenizer are answered with tokens.
  std::vector<int32_t> prompt_ids;
  int64_t tokens = 100;
  ChoiceOptions choice = {.temperature = 0.8, .top_p = 0.95};
  std::string tokenizer, end_of_document;  // as MakeTokenizer takes them; empty: the model's own
  int threads = 0;                         // 0: one per core
  bool json = false, stats = false;
  std::string logits;  // file; empty: none
};

// Writes to stdout as tokens come, statistics to stderr. Ends with Cancelled at the
// next layer once `interrupted()` is true, with what was written. Errors: those of opening and
// loading model and tokenizer, InvalidArgument (options, a prompt that is no text of the
// tokenizer's, a tokenizer that is not the model's), OutOfRange (a prompt that is longer than the
// model's sequence length), FailedPrecondition (a CPU that the kernels are not for), those of
// writing.
absl::Status Sample(const SampleOptions& options, const std::function<bool()>& interrupted);

}  // namespace stretto

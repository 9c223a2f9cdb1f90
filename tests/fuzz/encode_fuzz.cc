// SPDX-License-Identifier: Apache-2.0

// Text that people bring, through a tokenizer of byte pairs: whatever is encoded decodes to the
// same bytes but for ends of documents, and text is refused only where it is not UTF-8.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_replace.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/data/text/pattern.h"
#include "worker/data/text/tokenizer.h"

constexpr char kEnd[] = "<|endoftext|>";

namespace {

// Of a tokenizer that takes a word as a whole if it has a token.
void EncodeWholeWords(absl::string_view text) {
  static const auto tokenizer = *stretto::LoadBytePairTokenizer(
      STRETTO_SOURCE_DIR "/tests/golden/tokenizer/llama3_kind.json", "<|end_of_text|>");
  const auto tokens = tokenizer->Encode(text);
  STRETTO_CHECK(tokens.ok() == stretto::CheckUtf8(text).ok());
  if (tokens.ok()) STRETTO_CHECK(tokenizer->Decode(*tokens).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto tokenizer = *stretto::LoadBytePairTokenizer(
      STRETTO_SOURCE_DIR "/tests/golden/tokenizer/gpt2_kind.json", kEnd);
  const absl::string_view text = stretto::fuzz::TextOf(data, size);
  EncodeWholeWords(text);
  const auto tokens = tokenizer->Encode(text);
  STRETTO_CHECK(tokens.ok() == stretto::CheckUtf8(text).ok());
  if (!tokens.ok()) return 0;
  const auto again = tokenizer->Decode(*tokens);
  STRETTO_CHECK(again.ok() && *again == absl::StrReplaceAll(text, {{kEnd, ""}}));
  return 0;
}

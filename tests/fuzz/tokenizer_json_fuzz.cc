// SPDX-License-Identifier: Apache-2.0

// tokenizer.json: any text is a tokenizer or refused.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_input.h"
#include "worker/data/text/pattern.h"
#include "worker/data/text/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto json = stretto::ParseTokenizerJson(stretto::fuzz::TextOf(data, size));
  if (!json.ok()) return 0;
  stretto::Pattern::Compile(json->word_pattern).IgnoreError();
  stretto::BytePairModel::Create(std::move(json->vocabulary)).IgnoreError();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0

// A SentencePiece model file: any bytes are a tokenizer or refused, and a tokenizer encodes.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_input.h"
#include "worker/data/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tokenizer = stretto::LoadSentencePieceTokenizer(
      stretto::fuzz::Folder::Get().Write("model", stretto::fuzz::TextOf(data, size)));
  if (!tokenizer.ok()) return 0;
  const auto tokens = (*tokenizer)->Encode("Hello, world \xe2\x82\xac");
  if (tokens.ok()) (*tokenizer)->Decode(*tokens).status().IgnoreError();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0

// Token files of llm.c: any bytes, as two files, open or are refused, and what opens can be read.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "worker/data/llmc_tokens.h"

// Two bytes are the length of the first file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const absl::string_view bytes = stretto::fuzz::TextOf(data, size).substr(2);
  const size_t first = std::min(bytes.size(), size_t{data[0]} * 256 + data[1]);
  const stretto::fuzz::Folder& folder = stretto::fuzz::Folder::Get();
  const std::string path_1 = folder.Write("1", bytes.substr(0, first));
  const std::string path_2 = folder.Write("2", bytes.substr(first));
  for (const bool both : {false, true}) {
    std::vector<std::string> paths = {path_1};
    if (both) paths.push_back(path_2);
    const auto tokens = stretto::LlmcTokens::Open("llmc:fuzz", paths);
    if (!tokens.ok()) continue;
    std::array<int32_t, 8> some;
    tokens->Read(0, 1 << 20, some).IgnoreError();
    tokens->CheckTokens(1 << 20, tokens->token_count()).IgnoreError();
    if (tokens->FindDocument(1, tokens->token_count()) > tokens->token_count()) std::abort();
  }
  return 0;
}

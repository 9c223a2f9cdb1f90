// SPDX-License-Identifier: Apache-2.0

// Token files of llm.c: any bytes, as two files, open or are refused, and what opens can be read.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "worker/data/llmc_tokens.h"

namespace {

void Write(const std::string& path, const uint8_t* data, size_t size) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string prefix = "/tmp/stretto_token_files_fuzz_" + std::to_string(getpid());
  const size_t first = size < 2 ? size : std::min(size - 2, size_t{data[0]} * 256 + data[1]) + 2;
  Write(prefix + "_1", data + std::min<size_t>(size, 2), first - std::min<size_t>(size, 2));
  Write(prefix + "_2", data + first, size - first);
  for (const bool both : {false, true}) {
    std::vector<std::string> paths = {prefix + "_1"};
    if (both) paths.push_back(prefix + "_2");
    const auto tokens = stretto::LlmcTokens::Open("llmc:fuzz", paths);
    if (!tokens.ok()) continue;
    std::array<int32_t, 8> some;
    tokens->Read(0, 1 << 20, some).IgnoreError();
    tokens->CheckTokens(1 << 20, tokens->token_count()).IgnoreError();
    if (tokens->FindDocument(1, tokens->token_count()) > tokens->token_count()) std::abort();
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "worker/data/token_stream.h"

#include <algorithm>
#include <vector>

#include "proto/base/status_macros.h"

namespace stretto {

absl::Status TokenStream::CheckTokens(int32_t vocab_size, int64_t limit) const {
  std::vector<int32_t> block(size_t{1} << 16);
  const int64_t end = std::min(limit, token_count());
  for (int64_t begin = 0; begin < end; begin += static_cast<int64_t>(block.size())) {
    const auto count = std::min<size_t>(block.size(), end - begin);
    RETURN_IF_ERROR(Read(begin, vocab_size, std::span<int32_t>(block).first(count)));
  }
  return absl::OkStatus();
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which tokens of a data set are trained on, for example completions and not their prompts. The
// mask of PREFIX is a data set of its own, PREFIX.mask.bin and PREFIX.mask.idx in the same format,
// with a value for each token: 1 where the loss of predicting that token counts, 0 elsewhere. The
// note beside PREFIX records that it has one (tokenizer_info.h).

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/token_stream.h"

namespace stretto {

inline constexpr int32_t kMaskValues = 2;

std::string MaskPrefix(const std::string& prefix);

// Opens the mask of the data set `tokens` at `prefix`. Errors: those of IndexedDataset::Open,
// InvalidArgument (not one value for each token; names found and expected).
absl::StatusOr<std::unique_ptr<TokenStream>> OpenMask(const std::string& prefix,
                                                      const TokenStream& tokens);

// Returns how many of the tokens [begin, end) are trained on. Errors: those of TokenStream::Read.
absl::StatusOr<int64_t> CountTrained(const TokenStream& mask, int64_t begin, int64_t end);

}  // namespace stretto

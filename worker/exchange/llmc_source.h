// SPDX-License-Identifier: Apache-2.0
#pragma once
// A checkpoint of llm.c: GPT-2 in one file (karpathy/llm.c, train_gpt2.py: write_model).
//   256 i32: magic 20240326, version (3: f32, 5: bf16), longest sequence, vocabulary, layers,
//   heads, hidden, padded vocabulary; then the tensors of LlmcLayout. Little-endian.

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/exchange/model_source.h"

namespace stretto {

inline constexpr int32_t kLlmcModelMagic = 20240326;
inline constexpr int32_t kLlmcF32 = 3, kLlmcBf16 = 5;  // versions
using LlmcHeader = std::array<int32_t, 256>;

// Returns the model of a header in a file of that size. `path` names the file in errors. Errors:
// InvalidArgument (names path, field, found and expected).
absl::StatusOr<ModelSpec> ParseLlmcHeader(const LlmcHeader& header, int64_t file_size,
                                          const std::string& path);

// Errors: those of OpenModel.
absl::StatusOr<std::unique_ptr<ModelSource>> OpenLlmc(const std::string& name,
                                                      const std::string& path);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Opens data by its name in job files and on command lines.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/token_stream.h"

namespace stretto {

inline constexpr char kLlmcScheme[] = "llmc:";

// `name` is PREFIX, for PREFIX.bin and PREFIX.idx in the format of Megatron, or llmc:FILES, for
// token files of llm.c. A `*` in the last part of the path matches any text, and the files are read
// as one stream in the order of their names. Unless `root` is empty, every file must be under it.
// Errors: those of IndexedDataset::Open and LlmcTokens::Open, NotFound (no such file),
// PermissionDenied (a path that leaves the root).
absl::StatusOr<std::unique_ptr<TokenStream>> OpenTokens(const std::string& name,
                                                        const std::string& root = "");

// Returns the path of notes beside the data: under `root`, without the scheme. Errors:
// PermissionDenied.
absl::StatusOr<std::string> DataPath(const std::string& name, const std::string& root = "");

}  // namespace stretto

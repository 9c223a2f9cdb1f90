// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models out, in the formats of the field: a folder that `transformers` loads, or one with a
// checkpoint of llm.c.
//
//   OUTPUT/  config.json, generation_config.json, model.safetensors (or shards and their index),
//            the tokenizer's files as they are, stretto-optimizer.safetensors
//   OUTPUT/  model.bin (llm.c), the tokenizer's files
//
// Tensors stream: in memory are at most one and 150 MB, besides what the source needs to read one.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/exchange/model_source.h"

namespace stretto {

class Checkpoint;

inline constexpr char kGenerationConfigName[] = "generation_config.json";
inline constexpr char kLlmcName[] = "model.bin";

struct ExportOptions {
  std::string output;      // folder; its parent is there
  bool overwrite = false;  // an export that is there
  std::string dtype = "";  // "F32", "BF16" or "F16"; empty: each tensor's in the source
  int64_t max_shard_bytes = 5'000'000'000;
  // Also writes the optimizer's state of this checkpoint, which the source was opened from. Null:
  // none. F32 alone.
  const Checkpoint* optimizer = nullptr;
  // Called now and then, from the calling thread.
  std::function<void(int64_t bytes, int64_t total_bytes)> progress = nullptr;
  // Asked now and then; true ends the export with Cancelled.
  std::function<bool()> cancelled = nullptr;
};

struct ExportSummary {
  std::string dtype;
  int64_t tensors = 0;
  int64_t bytes = 0;  // of tensors
  int files = 0;      // that hold them
};

// On an error nothing is left behind. Errors: InvalidArgument (the format cannot hold this model,
// or a value does not fit the type: names field or tensor), AlreadyExists, FailedPrecondition (what
// would be overwritten is no export), Cancelled, ResourceExhausted (disk full), those of the source
// and of ErrnoStatus.
absl::StatusOr<ExportSummary> ExportHf(const ModelSource& source, const ExportOptions& options);
absl::StatusOr<ExportSummary> ExportLlmc(const ModelSource& source, const ExportOptions& options);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Exports models in other formats: a folder that `transformers` loads, or one with a checkpoint of
// llm.c.
//
//   OUTPUT/  config.json, generation_config.json, model.safetensors (or shards and their index),
//            the tokenizer's files as they are, stretto-optimizer.safetensors
//   OUTPUT/  model.bin (llm.c), the tokenizer's files
//
// Tensors are streamed: memory has at most one tensor and 150 MB, and what the source needs to read
// it.

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
  std::string output;      // folder; its parent must exist
  bool overwrite = false;  // replace an existing export
  std::string dtype = "";  // "F32", "BF16" or "F16"; empty: that of each tensor's source
  int64_t max_shard_bytes = 5'000'000'000;
  // Also writes the optimizer's state of this checkpoint, which must be the source's, in F32 only.
  // Null: none.
  const Checkpoint* optimizer = nullptr;
  // Called now and then on the calling thread.
  std::function<void(int64_t bytes, int64_t total_bytes)> progress = nullptr;
  // Called now and then; if it returns true, the export ends with Cancelled.
  std::function<bool()> cancelled = nullptr;
};

struct ExportSummary {
  std::string dtype;
  int64_t tensors = 0;
  int64_t bytes = 0;  // of tensors
  int files = 0;      // number of files with tensors
};

// On an error nothing is left behind. Errors: InvalidArgument (the format cannot represent this
// model, or a value does not fit the type; names field or tensor), AlreadyExists,
// FailedPrecondition (the folder to overwrite is no export), Cancelled, ResourceExhausted (disk
// full), those of the source and of ErrnoStatus.
absl::StatusOr<ExportSummary> ExportHf(const ModelSource& source, const ExportOptions& options);
absl::StatusOr<ExportSummary> ExportLlmc(const ModelSource& source, const ExportOptions& options);

}  // namespace stretto

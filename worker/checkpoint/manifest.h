// SPDX-License-Identifier: Apache-2.0
#pragma once
// Manifest v2: the contents of a checkpoint and the training state at which it was written. It is
// written last, so a folder with a manifest is a whole checkpoint. It does not depend on the layout
// that wrote it, so any other layout can read it.
//
//   {"version": 1, "step": 20, "epoch": 7, "job_uid": "...", ..., "world_size": 2, "tp_size": 2,
//    "parent": {"job_uid": "...", "epoch": 5, "step": 10},
//    "held_out": {"of": "...", "best_loss": "2.25", "better_loss": "2.25", "without_better": 1},
//    "files": [{"name": "rank-00000.safetensors", "size": 123, "crc32c": 1, "sha256": "..."}],
//    "tensors": [{"name": "layers.0.fc1.weight", "dtype": "F32", "shape": [8, 4], "shards": [
//        {"file": "rank-00000.safetensors", "offset": 64, "starts": [0, 0], "extents": [4, 4]},
//        ...]}],
//    "attachments": [{"name": "model.json", "size": 123, "crc32c": 1, "sha256": "..."}]}
//
// A shard has a "key" if the file has it under another name than that of the tensor, as it must if
// it has several boxes of one.
//
// "attachments" are small files that describe the tensors; the key is absent if there are none. So
// is "parent" of a run that began by itself. Releases before "job_uid" wrote neither. "held_out" of
// a step that was evaluated has its "loss" too, and version 2; all others have version 1.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/training_state.h"

namespace stretto {

inline constexpr char kManifestName[] = "manifest.json";

// One box of a global tensor, stored densely in row-major order.
struct ShardRecord {
  std::string file;
  int64_t offset = 0;  // of its first byte, from the start of the file
  std::vector<int64_t> starts;
  std::vector<int64_t> extents;
  std::string key;  // the name in the file

  bool operator==(const ShardRecord&) const = default;
};

struct TensorRecord {
  std::string name;   // global: layers are numbered over the whole model
  std::string dtype;  // as in safetensors
  std::vector<int64_t> shape;
  std::vector<ShardRecord> shards;  // cover the tensor exactly once

  bool operator==(const TensorRecord&) const = default;
};

struct Manifest {
  TrainingState state;
  std::vector<FileRecord> files;
  std::vector<TensorRecord> tensors;
  std::vector<FileRecord> attachments;
  // Returns null if there is no attachment of that name.
  const FileRecord* FindAttachment(absl::string_view name) const;

  bool operator==(const Manifest&) const = default;
};

std::string ManifestText(const Manifest& manifest);

// Refuses a field that is unknown, missing, duplicate or out of bounds, and shards that do not
// cover a tensor exactly once. `path` names the text in errors. Errors: InvalidArgument,
// FailedPrecondition (of a newer release: a version above ours, which is no damage).
absl::StatusOr<Manifest> ParseManifest(absl::string_view text, const std::string& path);

// The result of one rank's writing, as a text that ranks exchange. Errors of parsing:
// InvalidArgument.
struct ShardInfo {
  FileRecord file;
  std::vector<TensorRecord> tensors;  // with the shards in `file`

  bool operator==(const ShardInfo&) const = default;
};
std::string ShardInfoText(const ShardInfo& info);
absl::StatusOr<ShardInfo> ParseShardInfo(absl::string_view text);

}  // namespace stretto

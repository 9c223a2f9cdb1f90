// SPDX-License-Identifier: Apache-2.0

// Opening a checkpoint reads the headers of its files and checks that each shard of the manifest is
// the tensor in its file. Read gathers a box of a tensor from the shards that have parts of it.
// Every fault that makes a checkpoint unusable is DataLoss, so that the caller sets it aside and
// tries the one before.

#include "worker/checkpoint/checkpoint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/box.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/checked_file.h"
#include "worker/checkpoint/job_folder.h"
#include "worker/checkpoint/verifying_reader.h"

namespace stretto {
namespace {

using Extents = std::vector<int64_t>;

absl::Status Mismatch(const std::string& folder, absl::string_view field, absl::string_view found,
                      absl::string_view expected) {
  return absl::FailedPreconditionError(
      absl::StrCat(folder, ": ", field, ": found ", found, ", expected ", expected));
}

// Every fault that makes a checkpoint unusable is data loss, whatever code the parser used.
absl::Status AsDataLoss(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) && !absl::IsNotFound(status)) return status;
  return absl::DataLossError(status.message());
}

}  // namespace

absl::Status CheckResumable(const std::string& folder, const TrainingState& found,
                            const ResumeExpectation& expected) {
  if (!expected.spec_hash.empty() && found.spec_hash != expected.spec_hash) {
    return Mismatch(folder, "spec_hash", found.spec_hash, expected.spec_hash);
  }
  if (!expected.math_hash.empty() && found.math_hash != expected.math_hash) {
    return Mismatch(folder, "math_hash", found.math_hash, expected.math_hash);
  }
  if (!expected.tokenizer_hash.empty() && found.tokenizer_hash != expected.tokenizer_hash) {
    return Mismatch(folder, "tokenizer_hash",
                    found.tokenizer_hash.empty() ? "none" : found.tokenizer_hash,
                    absl::StrCat(expected.tokenizer_hash,
                                 ", that of the data: use data of the same tokenizer, or set "
                                 "data.allow_other_tokenizer"));
  }
  if (expected.padded_vocab != 0 && found.padded_vocab != expected.padded_vocab) {
    return Mismatch(folder, "padded_vocab", absl::StrCat(found.padded_vocab),
                    absl::StrCat(expected.padded_vocab));
  }
  if (expected.tp_size != 0 && found.tp_size != expected.tp_size) {
    return Mismatch(folder, "tp_size", absl::StrCat(found.tp_size), absl::StrCat(expected.tp_size));
  }
  return absl::OkStatus();
}

absl::StatusOr<Checkpoint> Checkpoint::OpenManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestName);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  absl::StatusOr<Manifest> manifest = ParseManifest(text, path);
  if (!manifest.ok()) return AsDataLoss(manifest.status());
  return Checkpoint(folder, *std::move(manifest));
}

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& folder) {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenHeaders(folder));
  RETURN_IF_ERROR(checkpoint.CheckAttachments(0, 1));
  ASSIGN_OR_RETURN(VerifyingReader files, VerifyingReader::Open(checkpoint, 0, 1));
  RETURN_IF_ERROR(files.Finish());
  return checkpoint;
}

absl::StatusOr<Checkpoint> Checkpoint::OpenHeaders(const std::string& folder) {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenManifest(folder));
  RETURN_IF_ERROR(CheckSizes(folder, checkpoint.manifest()));
  RETURN_IF_ERROR(checkpoint.OpenFiles());
  return checkpoint;
}

absl::Status Checkpoint::CheckAttachments(int share, int shares) const {
  const std::vector<FileRecord>& files = manifest_.attachments;
  for (size_t i = static_cast<size_t>(share); i < files.size(); i += static_cast<size_t>(shares)) {
    absl::StatusOr<CheckedFile> file = CheckedFile::Open(absl::StrCat(folder_, "/", files[i].name));
    if (!file.ok()) return AsDataLoss(file.status());
    RETURN_IF_ERROR(file->FinishAs(files[i]));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::OpenFiles() {
  for (const FileRecord& file : manifest_.files) {
    absl::StatusOr<SafetensorsReader> reader =
        SafetensorsReader::Open(absl::StrCat(folder_, "/", file.name));
    if (!reader.ok()) return AsDataLoss(reader.status());
    files_.emplace(file.name, *std::move(reader));
  }
  for (const TensorRecord& tensor : manifest_.tensors) {
    for (const ShardRecord& shard : tensor.shards) RETURN_IF_ERROR(CheckShard(tensor, shard));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::CheckShard(const TensorRecord& tensor, const ShardRecord& shard) const {
  const StoredTensor* stored = files_.at(shard.file).Find(shard.key);
  if (stored != nullptr && stored->dtype == tensor.dtype && stored->shape == shard.extents &&
      stored->offset == shard.offset) {
    return absl::OkStatus();
  }
  const std::string found =
      stored == nullptr ? "no such tensor"
                        : absl::StrCat(stored->dtype, " [", absl::StrJoin(stored->shape, ","),
                                       "] at byte ", stored->offset);
  return absl::DataLossError(absl::StrCat(folder_, "/", shard.file, ": tensor ", shard.key,
                                          ": found ", found, ", expected as in the manifest ",
                                          tensor.dtype, " [", absl::StrJoin(shard.extents, ","),
                                          "] at byte ", shard.offset));
}

const TensorRecord* Checkpoint::Find(absl::string_view name) const {
  for (const TensorRecord& tensor : manifest_.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

absl::Status Checkpoint::Read(absl::string_view name, absl::string_view dtype,
                              const Extents& starts, const Extents& extents, void* out) const {
  return ReadBy(name, dtype, starts, extents, out,
                [this](const ShardRecord& shard, int64_t begin, int64_t count, void* to) {
                  return ReadShard(shard, begin, count, to);
                });
}

absl::Status Checkpoint::ReadShard(const ShardRecord& shard, int64_t begin, int64_t count,
                                   void* out) const {
  const SafetensorsReader& file = files_.at(shard.file);
  return file.Read(*file.Find(shard.key), begin, count, out);
}

absl::Status Checkpoint::ReadBy(absl::string_view name, absl::string_view dtype,
                                const Extents& starts, const Extents& extents, void* out,
                                ReadBytes read) const {
  const TensorRecord* tensor = Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(absl::StrCat(folder_, ": tensor ", name, ": found none"));
  }
  const std::string what = absl::StrCat("tensor ", name);
  if (tensor->dtype != dtype) return Mismatch(folder_, what, tensor->dtype, dtype);
  bool inside = starts.size() == tensor->shape.size() && extents.size() == starts.size();
  for (size_t i = 0; inside && i < starts.size(); ++i) {
    inside = starts[i] >= 0 && extents[i] >= 0 && extents[i] <= tensor->shape[i] &&
             starts[i] <= tensor->shape[i] - extents[i];
  }
  if (!inside) {
    return Mismatch(folder_, what, absl::StrCat("shape [", absl::StrJoin(tensor->shape, ","), "]"),
                    absl::StrCat("one that holds starts [", absl::StrJoin(starts, ","),
                                 "] extents [", absl::StrJoin(extents, ","), "]"));
  }
  const int64_t item = DtypeBits(dtype) / 8;
  if (item == 0) return Mismatch(folder_, what, dtype, "a dtype of whole bytes");
  const Box wanted{starts, extents};
  // In the order in which the files have them, which costs least.
  std::vector<const ShardRecord*> shards;
  for (const ShardRecord& shard : tensor->shards) shards.push_back(&shard);
  std::sort(shards.begin(), shards.end(),
            [](const ShardRecord* a, const ShardRecord* b) { return a->offset < b->offset; });
  for (const ShardRecord* shard : shards) {
    const Box box{shard->starts, shard->extents};
    Box common;
    if (!Intersect(wanted, box, &common)) continue;
    RETURN_IF_ERROR(ForEachRun(box, wanted, common, [&](int64_t from, int64_t to, int64_t count) {
      return read(*shard, from * item, count * item, static_cast<char*>(out) + to * item);
    }));
  }
  return absl::OkStatus();
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/verifying_reader.h"

#include "absl/strings/str_cat.h"
#include "proto/base/box.h"
#include "proto/base/status_macros.h"

namespace stretto {

absl::StatusOr<VerifyingReader> VerifyingReader::Open(const Checkpoint& checkpoint, int share,
                                                      int shares, const ReadProgress& progress) {
  VerifyingReader reader(checkpoint);
  const std::vector<FileRecord>& files = checkpoint.manifest().files;
  for (size_t i = static_cast<size_t>(share); i < files.size(); i += static_cast<size_t>(shares)) {
    absl::StatusOr<CheckedFile> file =
        CheckedFile::Open(absl::StrCat(checkpoint.folder(), "/", files[i].name), progress);
    if (absl::IsNotFound(file.status())) return absl::DataLossError(file.status().message());
    RETURN_IF_ERROR(file.status());
    reader.share_.emplace(files[i].name, *std::move(file));
  }
  return reader;
}

std::string VerifyingReader::PlaceOf(absl::string_view name, const std::vector<int64_t>& starts,
                                     const std::vector<int64_t>& extents) const {
  const TensorRecord* tensor = checkpoint_->Find(name);
  if (tensor == nullptr || tensor->shape.size() != starts.size()) return "";
  std::string first;
  for (const ShardRecord& shard : tensor->shards) {
    Box common;
    if (share_.contains(shard.file) &&
        Intersect({starts, extents}, {shard.starts, shard.extents}, &common) &&
        (first.empty() || shard.key < first)) {
      first = shard.key;
    }
  }
  return first;
}

absl::Status VerifyingReader::Read(absl::string_view name, absl::string_view dtype,
                                   const std::vector<int64_t>& starts,
                                   const std::vector<int64_t>& extents, void* out) {
  return checkpoint_->ReadBy(name, dtype, starts, extents, out,
                             [&](const ShardRecord& shard, int64_t begin, int64_t count, void* to) {
                               const auto in_share = share_.find(shard.file);
                               if (in_share == share_.end())
                                 return checkpoint_->ReadShard(shard, begin, count, to);
                               return in_share->second.Read(shard.offset + begin, count, to);
                             });
}

absl::Status VerifyingReader::Finish() {
  for (const FileRecord& expected : checkpoint_->manifest().files) {
    const auto in_share = share_.find(expected.name);
    if (in_share != share_.end()) RETURN_IF_ERROR(in_share->second.FinishAs(expected));
  }
  return absl::OkStatus();
}

}  // namespace stretto

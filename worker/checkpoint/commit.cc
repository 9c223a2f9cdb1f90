// SPDX-License-Identifier: Apache-2.0

// Writes in a temporary folder whose name has the epoch, and makes it a checkpoint by one rename.
// Before that, everything is synced, the manifest is read back, and the attempt stops if a newer
// attempt of the same run has a folder here. Folders of other runs neither stop it nor are removed.
// A folder to be removed is first renamed to a temporary, so that a half-removed one never looks
// like a checkpoint.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/best.h"
#include "worker/checkpoint/checked_file.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/fence.h"
#include "worker/checkpoint/job_folder.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

std::string TemporaryFolder(const std::string& job_folder, int64_t step, const Attempt& attempt) {
  return absl::StrCat(job_folder, "/", TemporaryName(step, attempt.epoch.value(), attempt.job_uid));
}

void RemoveFolder(const std::string& path) {
  RemoveTree(path).IgnoreError();  // what is left looks like no checkpoint
}

// A half-removed checkpoint must not look like a whole one, so it becomes a temporary in one step.
void RemoveCheckpoint(const std::string& job_folder, const JobEntry& checkpoint,
                      const std::string& job_uid) {
  const std::string doomed = TemporaryFolder(job_folder, checkpoint.name.step, {Epoch(0), job_uid});
  RemoveFolder(doomed);
  if (RenameFile(checkpoint.path, doomed).ok()) RemoveFolder(doomed);
}

bool IsOf(const FolderName& name, const std::string& job_uid) {
  return name.kind == FolderName::Kind::kTemporary && name.run == ShortUid(job_uid);
}

absl::StatusOr<Manifest> Merge(const TrainingState& state, const std::vector<ShardInfo>& shards,
                               const std::string& folder) {
  Manifest manifest{state, {}, {}, {}};
  std::map<std::string, size_t> index;
  for (const ShardInfo& info : shards) {
    manifest.files.push_back(info.file);
    for (const TensorRecord& part : info.tensors) {
      const auto [at, fresh] = index.emplace(part.name, manifest.tensors.size());
      if (fresh) {
        manifest.tensors.push_back(part);
        continue;
      }
      TensorRecord& tensor = manifest.tensors[at->second];
      if (tensor.dtype != part.dtype || tensor.shape != part.shape) {
        return absl::InvalidArgumentError(
            absl::StrCat(folder, ": tensor ", part.name, ": found another dtype or shape in ",
                         info.file.name, ", expected that of ", tensor.shards.front().file));
      }
      tensor.shards.insert(tensor.shards.end(), part.shards.begin(), part.shards.end());
    }
  }
  return manifest;
}

absl::StatusOr<std::vector<FileRecord>> WriteAttachments(
    const std::string& folder, const std::vector<Attachment>& attachments) {
  std::vector<FileRecord> records;
  for (const Attachment& attachment : attachments) {
    const std::string path = absl::StrCat(folder, "/", attachment.name);
    RETURN_IF_ERROR(WriteFileAtomic(path, attachment.content));
    ASSIGN_OR_RETURN(FileRecord record, ChecksumFile(path));
    records.push_back(std::move(record));
  }
  return records;
}

absl::Status WriteManifest(const std::string& folder, const Manifest& manifest) {
  const std::string path = absl::StrCat(folder, "/", kManifestName);
  const std::string text = ManifestText(manifest);
  // A manifest that cannot be read back must not be written.
  RETURN_IF_ERROR(ParseManifest(text, path).status());
  RETURN_IF_ERROR(WriteFileAtomic(path, text));
  return CheckSizes(folder, manifest);
}

// Renames a checkpoint that is not shown to be this run's, so that its name is free.
absl::Status PutOthersAside(const std::string& job_folder, const TrainingState& state,
                            const std::string& folder) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return absl::OkStatus();
  const absl::StatusOr<Manifest> there = ReadManifest(folder);
  const std::string run = there.ok() ? there->state.job_uid : "";
  if (there.ok() && run == state.job_uid) return absl::OkStatus();
  const auto name = [&](int64_t number) { return AsideName(state.step, run, number); };
  return PutAside(job_folder, folder, name).status();
}

// Makes it a checkpoint by a rename. A checkpoint of an older attempt with the same step is
// exchanged atomically and then removed.
absl::Status MoveIntoPlace(const std::string& temporary, const std::string& final_folder) {
  if (RenameFile(temporary, final_folder).ok()) return absl::OkStatus();
  std::error_code ignored;
  if (!fs::exists(final_folder, ignored)) return RenameFile(temporary, final_folder);
  RETURN_IF_ERROR(RenameFile(temporary, final_folder, RENAME_EXCHANGE));
  RemoveFolder(temporary);
  return absl::OkStatus();
}

void Prune(const std::string& job_folder, const TrainingState& state, Retention keep) {
  const absl::StatusOr<std::vector<JobEntry>> folders = ListJobFolder(job_folder);
  if (!folders.ok()) return;
  std::vector<StoredCheckpoint> whole;
  for (const JobEntry& folder : *folders) {
    // Of step 0 is the fence that this attempt has raised: the checkpoint is one now.
    if (IsOf(folder.name, state.job_uid) &&
        folder.name.suffix < state.epoch + (folder.name.step == 0 ? 1 : 0)) {
      RemoveFolder(folder.path);
    }
    if (folder.name.kind != FolderName::Kind::kFinal) continue;
    absl::StatusOr<Manifest> manifest = GlanceAt(folder.path);
    if (manifest.ok() && manifest->state.job_uid == state.job_uid)
      whole.push_back({folder, *std::move(manifest)});
  }
  if (keep.newest <= 0) return;
  const StoredCheckpoint* const best = keep.best ? BestOf(whole) : nullptr;
  const int64_t best_step = best == nullptr ? state.step : best->folder.name.step;
  const auto order = [](const StoredCheckpoint& checkpoint) {
    return std::pair(checkpoint.manifest.state.epoch, checkpoint.manifest.state.step);
  };
  std::sort(whole.begin(), whole.end(),
            [&](const auto& a, const auto& b) { return order(a) > order(b); });
  // The checkpoint just written is one of those kept, whatever the others are.
  int kept = 1;
  for (const StoredCheckpoint& checkpoint : whole) {
    const int64_t step = checkpoint.folder.name.step;
    if (step == state.step || kept++ < keep.newest || step == best_step) continue;
    RemoveCheckpoint(job_folder, checkpoint.folder, state.job_uid);
  }
}

}  // namespace

absl::StatusOr<ShardInfo> WriteShard(const std::string& job_folder, int64_t step,
                                     const Attempt& attempt, Rank rank,
                                     const std::vector<ShardTensor>& tensors) {
  const std::string folder = TemporaryFolder(job_folder, step, attempt);
  RETURN_IF_ERROR(MakeFolders(folder));
  std::vector<SourceTensor> views;
  const auto key_of = [](const ShardTensor& tensor) {
    return tensor.key.empty() ? tensor.name : tensor.key;
  };
  for (const ShardTensor& tensor : tensors) {
    views.push_back({key_of(tensor), tensor.dtype, tensor.extents, tensor.data});
  }
  const std::string path =
      absl::StrCat(folder, "/", absl::StrFormat("rank-%05d.safetensors", rank.value()));
  absl::StatusOr<WrittenSafetensors> written = WriteSafetensors(path, views, {{"format", "pt"}});
  if (!written.ok()) {
    ::rmdir(folder.c_str());  // succeeds for the last rank that fails
    return written.status();
  }
  std::map<std::string, int64_t> offsets;
  for (const StoredTensor& stored : written->tensors) offsets[stored.name] = stored.offset;
  ShardInfo info{written->file, {}};
  for (const ShardTensor& tensor : tensors) {
    // The boxes of a tensor are adjacent.
    if (info.tensors.empty() || info.tensors.back().name != tensor.name)
      info.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
    const std::string key = key_of(tensor);
    info.tensors.back().shards.push_back(
        {written->file.name, offsets[key], tensor.starts, tensor.extents, key});
  }
  return info;
}

absl::StatusOr<std::string> Commit(const std::string& job_folder, const TrainingState& state,
                                   const std::vector<ShardInfo>& shards, Retention keep,
                                   const std::vector<Attachment>& attachments) {
  const std::string temporary =
      TemporaryFolder(job_folder, state.step, {Epoch(state.epoch), state.job_uid});
  const std::string final_folder = absl::StrCat(job_folder, "/", CheckpointName(state.step));
  auto attempt = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Manifest manifest, Merge(state, shards, temporary));
    ASSIGN_OR_RETURN(manifest.attachments, WriteAttachments(temporary, attachments));
    RETURN_IF_ERROR(WriteManifest(temporary, manifest));
    // Checked as late as possible, because a shared folder offers no compare-and-rename.
    RETURN_IF_ERROR(CheckFence(job_folder, {Epoch(state.epoch), state.job_uid}));
    RETURN_IF_ERROR(PutOthersAside(job_folder, state, final_folder));
    return MoveIntoPlace(temporary, final_folder);
  };
  if (absl::Status status = attempt(); !status.ok()) {
    RemoveFolder(temporary);
    return status;
  }
  RETURN_IF_ERROR(SyncPath(job_folder));
  const std::string root = fs::path(job_folder).parent_path().string();
  RETURN_IF_ERROR(SyncPath(root.empty() ? "." : root));  // the job's folder itself may be new
  Prune(job_folder, state, keep);
  return final_folder;
}

void Abandon(const std::string& job_folder, int64_t step, const Attempt& attempt) {
  RemoveFolder(TemporaryFolder(job_folder, step, attempt));
}

}  // namespace stretto

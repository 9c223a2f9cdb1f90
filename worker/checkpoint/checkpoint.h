// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checkpoints of a job on disk, written so that a crash, a full disk or a zombie of an older
// attempt never damages existing ones.
//
//   ROOT/JOB/step-00000020/             manifest.json, one rank-NNNNN.safetensors per rank, and
//                                       attachments
//   ROOT/JOB/step-00000030.tmp-7-0123abcd/  being written by the attempt of epoch 7 of that run
//   ROOT/JOB/step-00000010.bad-1/       failed its checks; kept for a human
//   ROOT/JOB/step-00000020.of-0123abcd-1/   of an earlier run of that name; kept for a human
//
// Writing: every rank calls WriteShard and sends its ShardInfo to rank 0, which calls Commit (or
// Abandon, if any rank failed). Reading: rank 0 calls FindNewestValid, whose check lets every rank
// look at the headers, and sends the folder to the others; then each of them loads what it needs
// and verifies a share of the files on the way (verifying_reader.h). The newest checkpoint of a run
// is that of the greatest (epoch, step): a later attempt supersedes an earlier one, even if it
// resumed from an earlier step. Checkpoints of other runs of that name (lineage.h) are neither
// counted nor removed.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/ids.h"
#include "worker/checkpoint/manifest.h"

namespace stretto {

// "step-00000020"
std::string CheckpointName(int64_t step);

// A box of a global tensor, dense and row-major.
struct ShardTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;  // global
  std::vector<int64_t> starts;
  std::vector<int64_t> extents;
  TensorData data;
  std::string key = {};  // its name in the file; empty: that of the tensor
};

// An attempt of a run to train.
struct Attempt {
  Epoch epoch;
  std::string job_uid = {};
};

// Writes and fsyncs this rank's file in the temporary folder, and creates the folder if needed.
// Ranks may call it concurrently. On an error the rank's file is removed. Errors: ResourceExhausted
// (disk full), those of ErrnoStatus and of fetching the data. Boxes of one tensor are adjacent in
// `tensors` and have keys of their own.
absl::StatusOr<ShardInfo> WriteShard(const std::string& job_folder, int64_t step,
                                     const Attempt& attempt, Rank rank,
                                     const std::vector<ShardTensor>& tensors);

// A small file beside the tensors that describes them. It is checked as they are.
struct Attachment {
  std::string name;  // a file name that the checkpoint does not use itself
  std::string content;
};

// What a commit leaves of the checkpoints of a run.
struct Retention {
  Retention(int newest, bool best = false)
      : newest(newest), best(best) {}  // NOLINT: a number, most often

  int newest;  // how many; 0: all
  bool best;   // the best one (best.h) in addition, if it is none of them
};

// Called by rank 0 after every rank's WriteShard succeeded. Writes attachments and manifest,
// renames the folder into place and fsyncs the job's folder. A checkpoint of the same step is
// replaced, or put aside if nothing shows that it is of this run. Then removes temporaries of older
// epochs and all whole checkpoints of this run but those that `keep` names and the one just
// written; a failure to remove another is not an error. Returns the checkpoint's folder.
// On an error the temporary folder is removed and older checkpoints are unchanged. Errors:
//   Aborted            fenced off: a newer attempt of this run has a checkpoint or a temporary here
//   ResourceExhausted  disk full
//   DataLoss           a shard file is missing or has another size than its writer reported
//   InvalidArgument    the shards do not cover a tensor exactly once, or disagree about it; two
//                      files have one name
absl::StatusOr<std::string> Commit(const std::string& job_folder, const TrainingState& state,
                                   const std::vector<ShardInfo>& shards, Retention keep,
                                   const std::vector<Attachment>& attachments = {});

// Removes the temporary folder of a checkpoint that will not be committed.
void Abandon(const std::string& job_folder, int64_t step, const Attempt& attempt);

struct FoundCheckpoint {
  std::string folder;
  Manifest manifest;
  std::vector<std::string> bad;  // "FOLDER: why": those passed over, by their names now
};

// Verifies a checkpoint's folder. InvalidArgument, DataLoss and NotFound mean that it is bad.
using CheckFolder = std::function<absl::Status(const std::string& folder)>;

// Returns the newest checkpoint whose manifest is correct and that passes `check`; by default
// sizes, headers and checksums are verified here. A bad one is passed over and the next is tried.
// The folder is that of a job, which may be running, so nothing in it is renamed, and it must be
// clear which run is meant (KeepOneRun). Errors: NotFound (no valid checkpoint; the message lists
// bad ones), FailedPrecondition (one of a newer release, so that ours cannot choose; those of
// KeepOneRun), those of ErrnoStatus if a folder cannot be read, and other errors of `check`.
absl::StatusOr<FoundCheckpoint> FindNewestValid(const std::string& job_folder,
                                                const CheckFolder& check = {});

// The same for an attempt whose own run (KeepRun) writes into that folder. Bad ones that are shown
// to be of that run are renamed to "NAME.bad-N"; one process at a time. Returns an empty folder if
// the run has no checkpoint there. An I/O error or a missing permission proves nothing about a
// checkpoint, so nothing is renamed then.
absl::StatusOr<FoundCheckpoint> FindOwnNewestValid(const std::string& job_folder,
                                                   const Attempt& self,
                                                   const CheckFolder& check = {});

// The properties that a resumed run must share with its checkpoint. Fields left at their default
// are not compared.
struct ResumeExpectation {
  std::string spec_hash;
  std::string math_hash = {};
  std::string tokenizer_hash;
  int64_t padded_vocab = 0;
  int64_t tp_size = 0;
};
// Errors: FailedPrecondition, naming folder, field, found and expected.
absl::Status CheckResumable(const std::string& folder, const TrainingState& found,
                            const ResumeExpectation& expected);

// A checkpoint open for reading by any layout. Thread-safe.
class Checkpoint {
 public:
  // Verifies everything: manifest, sizes, checksums, and that every file's own header agrees with
  // the manifest. Errors: DataLoss (names the file, found, expected), NotFound (no such folder).
  static absl::StatusOr<Checkpoint> Open(const std::string& folder);
  // Verifies all of that but checksums, and so does not read the tensors. Errors: as Open.
  static absl::StatusOr<Checkpoint> OpenHeaders(const std::string& folder);

  // Verifies the checksums of every `shares`-th attachment, beginning with number `share`. Errors:
  // DataLoss, those of reading.
  absl::Status CheckAttachments(int share, int shares) const;

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  // Returns null if there is no such tensor.
  const TensorRecord* Find(absl::string_view name) const;

  // Copies the box (starts, extents) of a global tensor to `out`, dense and row-major. Errors:
  // NotFound (no such tensor), FailedPrecondition (another dtype, or a box outside its shape: the
  // checkpoint is of another model), DataLoss, Unavailable.
  absl::Status Read(absl::string_view name, absl::string_view dtype,
                    const std::vector<int64_t>& starts, const std::vector<int64_t>& extents,
                    void* out) const;
  // The same, where `read` copies the bytes that are needed of each shard: `count` bytes, starting
  // at byte `begin` of the shard.
  using ReadBytes = absl::FunctionRef<absl::Status(const ShardRecord& shard, int64_t begin,
                                                   int64_t count, void* out)>;
  absl::Status ReadBy(absl::string_view name, absl::string_view dtype,
                      const std::vector<int64_t>& starts, const std::vector<int64_t>& extents,
                      void* out, ReadBytes read) const;
  // Reads them from the shard's file.
  absl::Status ReadShard(const ShardRecord& shard, int64_t begin, int64_t count, void* out) const;

 private:
  Checkpoint(std::string folder, Manifest manifest)
      : folder_(std::move(folder)), manifest_(std::move(manifest)) {}

  static absl::StatusOr<Checkpoint> OpenManifest(const std::string& folder);
  absl::Status OpenFiles();
  absl::Status CheckShard(const TensorRecord& tensor, const ShardRecord& shard) const;

  std::string folder_;
  Manifest manifest_;
  std::map<std::string, SafetensorsReader> files_;
};

}  // namespace stretto

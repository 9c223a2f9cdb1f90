// SPDX-License-Identifier: Apache-2.0
#pragma once
// Saves the state of all ranks as checkpoints, while training waits or while it continues.

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/trainer/process/fence_watch.h"
#include "worker/trainer/train_loop.h"

namespace stretto::trainer {

// The checkpoints of a rank, one at a time. Every rank makes the same calls in the same order,
// between its steps. Not thread-safe.
//
// A checkpoint has two parts: every rank writes its file, then rank 0 commits. A thread of this
// rank does the work of a part. When no rank is busy with it any more, the ranks exchange results
// and begin the next. A checkpoint that cannot be written is reported and leaves older ones
// unchanged; functions return the reason then, and otherwise an empty text. Their errors, which end
// training, are those of CheckReplicas, before anything is written, and of the group.
class Checkpointing {
 public:
  // `saved_step` is that of the state with which training starts. Borrows the context.
  Checkpointing(const TrainContext& context, int64_t saved_step);
  // Gives up a file that is being written, and waits for a commit.
  ~Checkpointing();
  Checkpointing(const Checkpointing&) = delete;
  Checkpointing& operator=(const Checkpointing&) = delete;

  // Writes a checkpoint of the state while training waits, after the one under way.
  absl::StatusOr<std::string> Save(const TrainState& state);
  // Copies the state, after the one under way, and has it written while training continues. Without
  // TrainContext::snapshot it is Save.
  absl::Status Begin(const TrainState& state);
  // Waits for the one under way, if there is one.
  absl::StatusOr<std::string> Finish();

  // Whether a checkpoint is under way; the same on all ranks.
  bool under_way() const { return part_ != Part::kNone; }
  // Whether this rank still works on its part.
  bool busy() const { return !done_.load(std::memory_order_acquire); }
  // Ends the part that no rank is busy with.
  absl::Status Continue();

  // The step of the newest that was written.
  int64_t saved_step() const { return saved_step_; }
  // Whether one of this step is written or under way.
  bool has(int64_t step) const {
    return step <= saved_step_ || (under_way() && step <= state_.step);
  }
  // The newest request for a checkpoint (DaemonLink::save_request) that one answers.
  int64_t answered_request() const { return request_; }
  // On rank 0: a newer attempt of the job has begun, so this one can save nothing more. It may
  // become true at any time.
  bool fenced() const { return fenced_ || (fence_watch_.has_value() && fence_watch_->fenced()); }

 private:
  enum class Part { kNone, kWriting, kCommitting };
  class Pause;

  absl::Status Start(const TrainState& state, bool copies);
  absl::StatusOr<std::string> Await();
  absl::StatusOr<std::string> EndPart();
  void Work(std::function<void()> work);
  void Write(const std::vector<ShardTensor>& tensors);
  absl::StatusOr<std::string> Commit();
  // Reports how the checkpoint under way has ended, and returns as Save.
  std::string Conclude(const std::string& verdict);
  int64_t Bytes() const;

  const TrainContext& c_;
  const absl::Duration files_take_;   // at most, those of one checkpoint
  std::vector<ShardTensor> tensors_;  // that this rank writes, in the engine
  int64_t saved_step_;
  bool fenced_ = false;                    // the last commit was refused for that
  std::optional<FenceWatch> fence_watch_;  // of rank 0

  // Of the checkpoint under way.
  Part part_ = Part::kNone;
  TrainingState state_;
  int64_t request_ = 0;              // also of the one before
  absl::StatusOr<ShardInfo> shard_;  // the result of writing
  std::vector<std::string> texts_;   // the results of all ranks
  std::string verdict_;              // rank 0: the result of the commit
  std::string best_;                 // rank 0: the name of the best one, if that is kept
  absl::Duration blocked_;           // for which training has waited, before `since_`
  absl::Duration since_;             // monotonic: the begin of the present wait

  std::atomic<bool> given_up_ = false;
  std::atomic<bool> done_ = true;
  std::jthread worker_;  // the last member: it uses the others
};

}  // namespace stretto::trainer

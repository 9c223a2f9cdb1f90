// SPDX-License-Identifier: Apache-2.0

// The thread of a part touches neither the group nor the reports: those belong to the train loop,
// where all ranks end a part at the same step. Waiting for a checkpoint is the same work without a
// copy, or the rest of it, with signs of life between the ranks.

#include "worker/trainer/checkpointing.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/best.h"
#include "worker/checkpoint/fence.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/work_together.h"
#include "worker/trainer/plan/writers.h"
#include "worker/trainer/process/flight_watch.h"
#include "worker/trainer/replicas.h"

namespace stretto::trainer {
namespace {

TrainingState StateOf(const TrainContext& context, const TrainState& state) {
  const JobConfig& config = context.config;
  return {.step = state.step,
          .updates = state.updates,
          .consumed_samples = state.consumed_samples,
          .seed = config.seed,
          .epoch = config.epoch,
          .spec_hash = config.spec_hash,
          .math_hash = config.math_hash,
          .tokenizer_hash = context.tokenizer_hash,
          .padded_vocab = config.engine.model.padded_vocab(),
          .world_size = config.engine.world_size(),
          .tp_size = TpSizeOf(config.engine, 0),
          .held_out = state.held_out,
          .job_uid = config.job_uid,
          .parent = state.parent};
}

}  // namespace

// Training waits while it lives.
class Checkpointing::Pause {
 public:
  explicit Pause(Checkpointing& of) : of_(of) {
    of_.since_ = Clock::Real().Monotonic();
    of_.c_.flight.SetPhase(FlightPhase::kCheckpoint, of_.since_);
  }
  ~Pause() { of_.blocked_ += Clock::Real().Monotonic() - of_.since_; }

 private:
  Checkpointing& of_;
};

Checkpointing::Checkpointing(const TrainContext& context, int64_t saved_step)
    : c_(context),
      files_take_(FilesTake(Writers(context.config.engine).bytes())),
      saved_step_(saved_step) {
  if (c_.config.rank != 0 || c_.config.checkpoint_disabled) return;
  fence_watch_.emplace([fence = Fence(c_.config.checkpoint_folder,
                                      AttemptOf(c_.config))]() mutable { return fence.Check(); },
                       c_.fence_interval);
}

Checkpointing::~Checkpointing() {
  if (!under_way()) return;
  Announce(c_.flight, files_take_);
  since_ = Clock::Real().Monotonic();
  given_up_.store(true);
  if (worker_.joinable()) worker_.join();
  // The group has failed, but rank 0 alone knows whether the checkpoint is there.
  if (part_ == Part::kCommitting && !verdict_.empty()) Conclude(verdict_);
}

absl::StatusOr<std::string> Checkpointing::Save(const TrainState& state) {
  const Pause pause(*this);
  RETURN_IF_ERROR(Await().status());
  RETURN_IF_ERROR(Start(state, /*copies=*/false));
  return Await();
}

absl::Status Checkpointing::Begin(const TrainState& state) {
  if (c_.snapshot == nullptr) return Save(state).status();
  const Pause pause(*this);
  RETURN_IF_ERROR(Await().status());
  return Start(state, /*copies=*/true);
}

absl::StatusOr<std::string> Checkpointing::Finish() {
  if (!under_way()) return std::string();
  const Pause pause(*this);
  return Await();
}

absl::Status Checkpointing::Continue() {
  const Pause pause(*this);
  return EndPart().status();
}

absl::Status Checkpointing::Start(const TrainState& state, bool copies) {
  blocked_ = absl::ZeroDuration();
  since_ = Clock::Real().Monotonic();
  RETURN_IF_ERROR(CheckReplicas(c_.config.engine, c_.engine, c_.control));
  if (tensors_.empty()) tensors_ = c_.engine.OwnedStateTensors();
  absl::StatusOr<std::vector<ShardTensor>> tensors = tensors_;
  if (copies) {
    RETURN_IF_ERROR(WorkTogether(c_.control, [&] {
      const AnnouncedWork work(c_.flight, files_take_);
      tensors = c_.snapshot->Copy(tensors_);
      return absl::OkStatus();
    }));
  }
  state_ = StateOf(c_, state);
  request_ = c_.link.save_request();
  texts_.clear();
  verdict_.clear();
  part_ = Part::kWriting;
  if (tensors.ok()) {
    Work([this, tensors = *std::move(tensors)] { Write(tensors); });
  } else {
    shard_ = tensors.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Checkpointing::Await() {
  std::string failed;
  while (under_way()) {
    RETURN_IF_ERROR(WorkTogether(c_.control, [this] {
      const AnnouncedWork work(c_.flight, files_take_);
      if (worker_.joinable()) worker_.join();
      return absl::OkStatus();
    }));
    ASSIGN_OR_RETURN(failed, EndPart());
  }
  return failed;
}

absl::StatusOr<std::string> Checkpointing::EndPart() {
  if (worker_.joinable()) worker_.join();
  if (part_ == Part::kWriting) {
    part_ = Part::kCommitting;
    const absl::StatusOr<std::string> mine =
        shard_.ok() ? absl::StatusOr<std::string>(ShardInfoText(*shard_)) : shard_.status();
    ASSIGN_OR_RETURN(texts_, ExchangeText(c_.control, PackText(mine)));
    // Only rank 0 commits; its verdict is that of all ranks.
    if (c_.config.rank == 0) Work([this] { verdict_ = PackText(Commit()); });
    return std::string();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> verdicts, ExchangeText(c_.control, verdict_));
  return Conclude(verdicts[0]);
}

void Checkpointing::Work(std::function<void()> work) {
  done_.store(false);
  worker_ = std::jthread([this, work = std::move(work)] {
    work();
    done_.store(true, std::memory_order_release);
  });
}

void Checkpointing::Write(const std::vector<ShardTensor>& tensors) {
  std::vector<ShardTensor> watched = tensors;
  for (ShardTensor& tensor : watched) {
    tensor.data = TensorData([this, data = tensor.data]() -> absl::StatusOr<const void*> {
      if (given_up_.load()) return absl::CancelledError("training has failed");
      return data.fetch();
    });
  }
  shard_ = c_.files.write(c_.config.checkpoint_folder, state_.step, AttemptOf(c_.config),
                          c_.config.rank, watched);
}

absl::StatusOr<std::string> Checkpointing::Commit() {
  const JobConfig& config = c_.config;
  std::vector<ShardInfo> shards;
  for (size_t rank = 0; rank < texts_.size(); ++rank) {
    absl::string_view text = texts_[rank];
    // A checkpoint needs the shards of all ranks, so one failure abandons it.
    if (!absl::ConsumePrefix(&text, "+")) {
      Abandon(config.checkpoint_folder, state_.step, AttemptOf(config));
      return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", text.substr(1)));
    }
    ASSIGN_OR_RETURN(ShardInfo shard, ParseShardInfo(text));
    shards.push_back(std::move(shard));
  }
  ASSIGN_OR_RETURN(
      std::string folder,
      c_.files.commit(config.checkpoint_folder, state_, shards,
                      {config.checkpoint_keep, config.checkpoint_keep_best}, c_.attachments));
  if (config.checkpoint_keep_best) {
    absl::StatusOr<std::string> best = NameOfOwnBest(config.checkpoint_folder, AttemptOf(config));
    if (best.ok()) best_ = *std::move(best);
  }
  return folder;
}

std::string Checkpointing::Conclude(const std::string& verdict) {
  part_ = Part::kNone;
  absl::string_view text = verdict;
  const bool ok = absl::ConsumePrefix(&text, "+");
  if (!ok) text.remove_prefix(1);
  const absl::Duration now = Clock::Real().Monotonic();
  v1alpha1::RankReport report;
  v1alpha1::CheckpointReport* checkpoint = report.mutable_checkpoint();
  checkpoint->set_step(state_.step);
  checkpoint->set_name(CheckpointName(state_.step));
  checkpoint->set_ok(ok);
  checkpoint->set_request(request_);
  *checkpoint->mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      absl::ToUnixNanos(Clock::Real().Now()));
  checkpoint->set_seconds(absl::ToDoubleSeconds(blocked_ + now - since_));
  if (ok) {
    checkpoint->set_bytes(Bytes());
    checkpoint->set_best(best_);
    saved_step_ = state_.step;
    spdlog::info("checkpoint written step={} blocked={:.3f} folder={}", state_.step,
                 checkpoint->seconds(), std::string(text));
  } else {
    checkpoint->set_message(std::string(text));
    spdlog::error("checkpoint failed step={}: {}", state_.step, std::string(text));
  }
  if (c_.config.rank == 0) {
    c_.reporter.Send(std::move(report));
    if (ok && c_.on_checkpoint) c_.on_checkpoint(state_.step, std::string(text));
    fenced_ = !ok && absl::IsAborted(CheckFence(c_.config.checkpoint_folder, AttemptOf(c_.config)));
  }
  return ok ? std::string() : std::string(text);
}

// Rank 0 parsed each of the texts when it committed them.
int64_t Checkpointing::Bytes() const {
  int64_t bytes = 0;
  for (absl::string_view text : texts_) {
    absl::ConsumePrefix(&text, "+");
    const absl::StatusOr<ShardInfo> shard = ParseShardInfo(text);
    if (shard.ok()) bytes += shard->file.size;
  }
  return bytes;
}

}  // namespace stretto::trainer

// SPDX-License-Identifier: Apache-2.0

// Each rank writes its shard, and the ranks exchange what they have written. Rank 0 commits the
// checkpoint if all shards are there, reports it, and its verdict is that of all ranks.

#include "worker/trainer/checkpointing.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/work_together.h"
#include "worker/trainer/flight_watch.h"
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

absl::StatusOr<std::string> CommitAll(const TrainContext& context, const TrainState& state,
                                      const std::vector<std::string>& texts) {
  const JobConfig& config = context.config;
  std::vector<ShardInfo> shards;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    absl::string_view text = texts[rank];
    // A checkpoint needs the shards of all ranks, so one failure abandons it.
    if (!absl::ConsumePrefix(&text, "+")) {
      Abandon(config.checkpoint_folder, state.step, AttemptOf(config));
      return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", text.substr(1)));
    }
    ASSIGN_OR_RETURN(ShardInfo shard, ParseShardInfo(text));
    shards.push_back(std::move(shard));
  }
  return Commit(config.checkpoint_folder, StateOf(context, state), shards, config.checkpoint_keep,
                context.attachments);
}

// Returns the bytes of all ranks' files. Rank 0 parsed each of the texts when it committed them.
int64_t BytesOf(const std::vector<std::string>& texts) {
  int64_t bytes = 0;
  for (absl::string_view text : texts) {
    absl::ConsumePrefix(&text, "+");
    const absl::StatusOr<ShardInfo> shard = ParseShardInfo(text);
    if (shard.ok()) bytes += shard->file.size;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> SaveCheckpoint(const TrainContext& context, const TrainState& state,
                                           int64_t request) {
  const JobConfig& config = context.config;
  const absl::Duration begin = Clock::Real().Monotonic();
  RETURN_IF_ERROR(CheckReplicas(config.engine, context.engine, context.control));
  absl::StatusOr<ShardInfo> shard = absl::UnknownError("not written");
  RETURN_IF_ERROR(WorkTogether(context.control, [&] {
    const AnnouncedWork work(context.flight, kFilesOfAModel);
    shard = WriteShard(config.checkpoint_folder, state.step, AttemptOf(config), config.rank,
                       context.engine.OwnedStateTensors());
    return absl::OkStatus();
  }));
  const absl::StatusOr<std::string> mine =
      shard.ok() ? absl::StatusOr<std::string>(ShardInfoText(*shard)) : shard.status();
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   ExchangeText(context.control, PackText(mine)));
  std::string verdict;
  // Only rank 0 commits; its verdict is that of all ranks.
  RETURN_IF_ERROR(WorkTogether(context.control, [&] {
    const AnnouncedWork work(context.flight, kFilesOfAModel);
    if (config.rank == 0) verdict = PackText(CommitAll(context, state, texts));
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(const std::vector<std::string> verdicts, ExchangeText(context.control, verdict));

  absl::string_view text = verdicts[0];
  const bool ok = absl::ConsumePrefix(&text, "+");
  if (!ok) text.remove_prefix(1);
  v1alpha1::RankReport report;
  v1alpha1::CheckpointReport* checkpoint = report.mutable_checkpoint();
  checkpoint->set_step(state.step);
  checkpoint->set_name(CheckpointName(state.step));
  checkpoint->set_ok(ok);
  checkpoint->set_request(request);
  *checkpoint->mutable_time() = google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      absl::ToUnixNanos(Clock::Real().Now()));
  checkpoint->set_seconds(absl::ToDoubleSeconds(Clock::Real().Monotonic() - begin));
  if (ok) {
    checkpoint->set_bytes(BytesOf(texts));
  } else {
    checkpoint->set_message(std::string(text));
  }
  if (config.rank == 0) context.reporter.Send(std::move(report));
  if (ok) {
    spdlog::info("checkpoint written step={} folder={}", state.step, std::string(text));
    return std::string();
  }
  spdlog::error("checkpoint failed step={}: {}", state.step, std::string(text));
  return std::string(text);
}

}  // namespace stretto::trainer

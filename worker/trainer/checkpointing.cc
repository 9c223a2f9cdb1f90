#include "worker/trainer/checkpointing.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

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
          .tokenizer_hash = context.tokenizer_hash,
          .padded_vocab = config.engine.model.padded_vocab(),
          .world_size = config.engine.tp_size,
          .tp_size = config.engine.tp_size};
}

// "+TEXT" for what worked, "-TEXT" for what did not: how ranks tell each other.
std::string Pack(const absl::StatusOr<std::string>& result) {
  return result.ok() ? "+" + *result : "-" + std::string(result.status().message());
}

absl::Status Refused(absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("checkpoint.resume_from: ", why));
}

absl::StatusOr<std::string> CommitAll(const TrainContext& context, const TrainState& state,
                                      const std::vector<std::string>& texts) {
  const JobConfig& config = context.config;
  std::vector<ShardInfo> shards;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    absl::string_view text = texts[rank];
    if (!absl::ConsumePrefix(&text, "+")) {
      Abandon(config.checkpoint_folder, state.step, Epoch(config.epoch));
      return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", text.substr(1)));
    }
    ASSIGN_OR_RETURN(ShardInfo shard, ParseShardInfo(text));
    shards.push_back(std::move(shard));
  }
  return Commit(config.checkpoint_folder, StateOf(context, state), shards, config.checkpoint_keep);
}

// Of all ranks' files; each was parsed by rank 0 when it committed them.
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

absl::Status SaveCheckpoint(const TrainContext& context, const TrainState& state) {
  const JobConfig& config = context.config;
  const absl::Duration begin = Clock::Real().Monotonic();
  absl::StatusOr<ShardInfo> shard =
      WriteShard(config.checkpoint_folder, state.step, Epoch(config.epoch), Rank(config.rank),
                 context.engine.StateTensors());
  const absl::StatusOr<std::string> mine =
      shard.ok() ? absl::StatusOr<std::string>(ShardInfoText(*shard)) : shard.status();
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, ExchangeText(context.control, Pack(mine)));
  std::string verdict;
  if (config.rank == 0) verdict = Pack(CommitAll(context, state, texts));
  ASSIGN_OR_RETURN(const std::vector<std::string> verdicts, ExchangeText(context.control, verdict));

  absl::string_view text = verdicts[0];
  const bool ok = absl::ConsumePrefix(&text, "+");
  if (!ok) text.remove_prefix(1);
  v1alpha1::RankReport report;
  v1alpha1::CheckpointReport* checkpoint = report.mutable_checkpoint();
  checkpoint->set_step(state.step);
  checkpoint->set_name(CheckpointName(state.step));
  checkpoint->set_ok(ok);
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
  } else {
    spdlog::error("checkpoint failed step={}: {}", state.step, std::string(text));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Checkpoint>> FindCheckpoint(const JobConfig& config,
                                                         Communicator& control) {
  if (config.resume_folder.empty()) return std::nullopt;
  // Rank 0 chooses, so that all ranks read the same one.
  absl::StatusOr<std::string> chosen = std::string();
  if (config.rank == 0) {
    chosen = config.resume_folder;
    if (!config.resume_exact) {
      absl::StatusOr<FoundCheckpoint> found = FindNewestValid(config.resume_folder);
      chosen = found.ok() ? absl::StatusOr<std::string>(found->folder) : found.status();
      if (found.ok()) {
        for (const std::string& bad : found->quarantined)
          spdlog::warn("checkpoint quarantined: {}", bad);
      }
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, ExchangeText(control, Pack(chosen)));
  absl::string_view folder = texts[0];
  if (!absl::ConsumePrefix(&folder, "+")) return Refused(folder.substr(1));
  absl::StatusOr<Checkpoint> opened = Checkpoint::Open(std::string(folder));
  if (absl::IsNotFound(opened.status())) return Refused(opened.status().message());
  ASSIGN_OR_RETURN(Checkpoint checkpoint, std::move(opened));
  return checkpoint;
}

absl::StatusOr<TrainState> Resume(const JobConfig& config, const std::string& tokenizer_hash,
                                  const Checkpoint& checkpoint, RankEngine& engine) {
  const std::string& folder = checkpoint.folder();
  const TrainingState& saved = checkpoint.manifest().state;
  // The hash last: what differs can often be named.
  ResumeExpectation expected{.spec_hash = "",
                             .tokenizer_hash = tokenizer_hash,
                             .padded_vocab = config.engine.model.padded_vocab(),
                             .tp_size = config.engine.tp_size};
  RETURN_IF_ERROR(CheckResumable(folder, saved, expected));
  RETURN_IF_ERROR(engine.ReadState(checkpoint));
  expected.spec_hash = config.spec_hash;
  RETURN_IF_ERROR(CheckResumable(folder, saved, expected));
  spdlog::info("resumed folder={} step={}", folder, saved.step);
  return TrainState{
      .step = saved.step, .updates = saved.updates, .consumed_samples = saved.consumed_samples};
}

}  // namespace stretto::trainer

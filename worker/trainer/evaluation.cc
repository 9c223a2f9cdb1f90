// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/evaluation.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "proto/base/status_macros.h"

namespace stretto::trainer {
namespace {

// Replaces the value by that of rank 0: ranks must not decide differently because of a last bit.
absl::Status TakeFromRankZero(Communicator& control, double* value) {
  if (control.size() == 1) return absl::OkStatus();
  auto words = std::bit_cast<std::array<int32_t, 2>>(*value);
  RETURN_IF_ERROR(control.Run(Collective::Broadcast(
      {.data = words.data(), .dtype = DType::kI32, .shape = {2, 1, 1, 1}, .rank = 1}, 0)));
  *value = std::bit_cast<double>(words);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Evaluation>> Evaluation::Create(const JobConfig& config,
                                                               const Sampler& held_out,
                                                               RankEngine& training, GroupLink tp,
                                                               Communicator& control,
                                                               Backend& backend, OnBegin on_begin) {
  ASSIGN_OR_RETURN(auto engine,
                   RankEngine::CreateEvaluation(training, tp, backend, std::move(on_begin)));
  std::memset(engine->keys(0), 0, kKeyCount * sizeof(int32_t));  // there is no dropout to key
  return std::unique_ptr<Evaluation>(new Evaluation(config, held_out, control, std::move(engine)));
}

Evaluation::Evaluation(const JobConfig& config, const Sampler& held_out, Communicator& control,
                       std::unique_ptr<RankEngine> engine)
    : config_(config), held_out_(held_out), control_(control), engine_(std::move(engine)) {}

int64_t Evaluation::tokens() const {
  return int64_t{config_.evaluation.batches} * config_.engine.micro_batch_size *
         config_.engine.model.sequence_length;
}

absl::StatusOr<std::optional<double>> Evaluation::MeanLoss(Stop stop) {
  double sum = 0;
  const int64_t size = config_.engine.micro_batch_size;
  for (int64_t batch = 0; batch < config_.evaluation.batches; ++batch) {
    ASSIGN_OR_RETURN(const bool stopped, stop());
    if (stopped) return std::nullopt;
    RETURN_IF_ERROR(
        held_out_.ReadBatch(batch * size, size, engine_->tokens(0), engine_->targets(0)));
    RETURN_IF_ERROR(engine_->executor().Run());
    sum = engine_->AddLosses(sum);
  }
  double mean = sum / static_cast<double>(tokens());
  RETURN_IF_ERROR(TakeFromRankZero(control_, &mean));
  return mean;
}

}  // namespace stretto::trainer

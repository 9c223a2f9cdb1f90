// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/evaluation.h"

#include <cstring>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/sum_in_turn.h"
#include "worker/trainer/agreement/work_together.h"

namespace stretto::trainer {
absl::StatusOr<std::unique_ptr<Evaluation>> Evaluation::Create(
    const JobConfig& config, const Sampler& held_out, RankEngine& training, GroupLinks links,
    Communicator& control, Backend& backend, OnBegin on_begin) {
  ASSIGN_OR_RETURN(auto engine, RankEngine::CreateEvaluation(training, std::move(links), backend,
                                                             std::move(on_begin)));
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
  const EngineSpec& spec = config_.engine;
  const int64_t size = spec.micro_batch_size, batches = config_.evaluation.batches;
  // The replicas take batches in turn.
  std::vector<double> sums;  // of the batches of this replica; 0 where there is none left
  for (int64_t first = 0; first < batches; first += spec.dp_size) {
    ASSIGN_OR_RETURN(const bool stopped, stop());
    if (stopped) return std::nullopt;
    const int64_t batch = first + PlaceOf(spec, config_.rank).replica;
    sums.push_back(0);
    const auto measure = [&]() -> absl::Status {
      if (batch >= batches) return absl::OkStatus();
      RETURN_IF_ERROR(
          held_out_.ReadBatch(batch * size, size, engine_->tokens(0), engine_->targets(0)));
      RETURN_IF_ERROR(engine_->executor().Run());
      sums.back() = engine_->LossSums().front();
      return absl::OkStatus();
    };
    // Ranks of other replicas and stages do not wait for this one in a forward pass, and one may
    // take long. Only some read data, so only some may fail.
    const bool alike = spec.world_size() == spec.tp_size;
    RETURN_IF_ERROR(alike ? measure() : WorkTogether(control_, measure));
  }
  // All ranks get the same bits, so that none decides differently because of a last bit.
  ASSIGN_OR_RETURN(const double sum, SumInTurn(spec, control_, sums));
  return sum / static_cast<double>(tokens());
}

}  // namespace stretto::trainer

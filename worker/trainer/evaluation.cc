// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/evaluation.h"

#include <algorithm>
#include <cstring>
#include <iterator>
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
  ASSIGN_OR_RETURN(auto engine,
                   RankEngine::CreateEvaluation(training, config.evaluation.batches,
                                                std::move(links), backend, std::move(on_begin)));
  for (int mb = 0; mb < engine->micro_batches(); ++mb)  // there is no dropout to key
    std::memset(engine->keys(mb), 0, kKeyCount * sizeof(int32_t));
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
  const int64_t in_run = engine_->micro_batches();
  // The replicas take batches in turn.
  std::vector<double> sums;  // of the batches of this replica; 0 where there is none left
  for (int64_t first = PlaceOf(spec, config_.rank).replica;
       std::ssize(sums) * spec.dp_size < batches; first += spec.dp_size * in_run) {
    ASSIGN_OR_RETURN(const bool stopped, stop());
    if (stopped) return std::nullopt;
    const auto batch = [&](int mb) { return first + int64_t{mb} * spec.dp_size; };
    const auto read = [&]() -> absl::Status {
      for (int mb = 0; mb < in_run; ++mb) {
        // Where none is left, the last batch is measured again and does not count.
        const int64_t sample = std::min(batch(mb), batches - 1) * size;
        RETURN_IF_ERROR(
            held_out_.ReadBatch(sample, size, engine_->tokens(mb), engine_->targets(mb)));
      }
      return absl::OkStatus();
    };
    const auto run = [&] { return engine_->executor().Run(); };
    if (spec.pp_size == 1 && spec.dp_size == 1) {
      RETURN_IF_ERROR(read());
      RETURN_IF_ERROR(run());
    } else {
      // Only some ranks read data, so only some may fail, and the others would wait for them in the
      // forward pass. That may take long for ranks that do not wait for each other.
      RETURN_IF_ERROR(WorkTogether(control_, read));
      RETURN_IF_ERROR(WorkTogether(control_, run));
    }
    const std::vector<double> found = engine_->LossSums();
    for (int mb = 0; mb < in_run; ++mb)
      sums.push_back(batch(mb) < batches ? found[static_cast<size_t>(mb)] : 0);
  }
  // All ranks get the same bits, so that none decides differently because of a last bit.
  ASSIGN_OR_RETURN(const double sum, SumInTurn(spec, control_, sums));
  return sum / static_cast<double>(tokens());
}

}  // namespace stretto::trainer

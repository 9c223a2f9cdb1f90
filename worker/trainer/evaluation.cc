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
#include "worker/trainer/exit_reason.h"

namespace stretto::trainer {
absl::StatusOr<std::unique_ptr<Evaluation>> Evaluation::Create(
    const JobConfig& config, const Sampler& held_out, RankEngine& training, GroupLinks links,
    Communicator& control, Backend& backend, OnBegin on_begin) {
  const absl::StatusOr<int64_t> targets =
      held_out.CountTargets(0, int64_t{config.evaluation.batches} * config.engine.micro_batch_size);
  if (!targets.ok()) return OfData(targets.status());
  ASSIGN_OR_RETURN(auto engine,
                   RankEngine::CreateEvaluation(training, config.evaluation.batches,
                                                std::move(links), backend, std::move(on_begin)));
  for (int mb = 0; mb < engine->micro_batches(); ++mb)  // there is no dropout to key
    std::memset(engine->keys(mb), 0, kKeyCount * sizeof(int32_t));
  return std::unique_ptr<Evaluation>(
      new Evaluation(config, held_out, *targets, control, std::move(engine)));
}

Evaluation::Evaluation(const JobConfig& config, const Sampler& held_out, int64_t targets,
                       Communicator& control, std::unique_ptr<RankEngine> engine)
    : config_(config),
      held_out_(held_out),
      targets_(targets),
      control_(control),
      engine_(std::move(engine)) {}

absl::StatusOr<std::optional<double>> Evaluation::MeanLoss(Stop stop) {
  const EngineSpec& spec = config_.engine;
  const int64_t size = spec.micro_batch_size, batches = config_.evaluation.batches;
  const int64_t in_run = engine_->micro_batches();
  // A batch is a share of a micro-batch, of which each replica of a stage has some.
  const Place place = PlaceOf(spec, config_.rank);
  const int64_t shares = SharesOf(spec, place.stage), length = spec.model.sequence_length;
  std::vector<double> sums;  // of the batches of this replica; 0 where there is none left
  for (int64_t turn = 0; turn * spec.dp_size < batches; turn += in_run) {
    ASSIGN_OR_RETURN(const bool stopped, stop());
    if (stopped) return std::nullopt;
    const auto batch = [&](int64_t mb, int64_t share) {
      return (turn + mb) * spec.dp_size + place.replica * shares + share;
    };
    const auto read_share = [&](int mb, int64_t share) {
      const auto of_share = [&](int32_t* tokens) {
        return tokens == nullptr ? tokens : tokens + share * size * length;
      };
      // Where none is left, the last batch is measured again and does not count.
      const int64_t first = std::min(batch(mb, share), batches - 1) * size;
      held_out_.FindDocuments(first, size, of_share(engine_->documents(mb)));
      return held_out_.ReadBatch(first, size, of_share(engine_->tokens(mb)),
                                 of_share(engine_->targets(mb)));
    };
    const auto read = [&]() -> absl::Status {
      for (int mb = 0; mb < in_run; ++mb) {
        for (int64_t share = 0; share < shares; ++share)
          RETURN_IF_ERROR(OfData(read_share(mb, share)));
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
    const int64_t counted = std::ssize(found) / in_run;  // of a micro-batch
    for (int64_t i = 0; i < std::ssize(found); ++i) {
      const bool counts = batch(i / counted, i % counted) < batches;
      sums.push_back(counts ? found[static_cast<size_t>(i)] : 0);
    }
  }
  // All ranks get the same bits, so that none decides differently because of a last bit.
  ASSIGN_OR_RETURN(const double sum, SumInTurn(spec, control_, sums));
  return sum / static_cast<double>(tokens());
}

}  // namespace stretto::trainer

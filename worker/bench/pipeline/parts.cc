// SPDX-License-Identifier: Apache-2.0

// A round runs the computation alone, and sends a transfer alone on a drained link.

#include "worker/bench/pipeline/parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/inputs.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/overlap/simulate.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

double SecondsBetween(int64_t begin, int64_t end) {
  return static_cast<double>(end - begin) * 1e-9;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PartsMeasurement>> PartsMeasurement::Create(
    const PipelineOptions& options, MeasuredJob& job) {
  std::unique_ptr<PartsMeasurement> parts(new PartsMeasurement(options, job));
  for (const auto& [spread, spec] : options.specs) {
    std::unique_ptr<trainer::RankEngine>& engine = parts->computed_[spread].engine;
    ASSIGN_OR_RETURN(engine, job.Make(spec, Variant::kComputeOnly));
    FillInputs(spec, 1, *engine);
    RETURN_IF_ERROR(engine->executor().Run());  // touches the memory
  }
  parts->payload_.resize(parts->TransferCount());
  return parts;
}

std::vector<TimedProgram> PartsMeasurement::Programs() {
  std::vector<TimedProgram> programs;
  for (auto& [spread, each] : computed_) {
    Computed* computed = &each;
    programs.push_back(Timed<Computation>(
        absl::StrCat("computation alone, chunks ", spread.chunks, spread.folded ? ", folded" : ""),
        &computed->rounds, [this, computed] { return MeasureComputation(computed); },
        [](const Computation& computation) { return computation.slowest; }));
  }
  return programs;
}

absl::Status PartsMeasurement::MeasureComputation(Computed* computed) {
  RETURN_IF_ERROR(job_.control().Run(Collective::Barrier()));
  ASSIGN_OR_RETURN(Computation found, Run(*computed->engine));
  ASSIGN_OR_RETURN(found.slowest, job_.Slowest(found.total));
  computed->rounds.push_back(std::move(found));
  if (computed != &first()) return absl::OkStatus();
  return MeasureTransfer();
}

absl::StatusOr<PartsMeasurement::Computation> PartsMeasurement::Run(trainer::RankEngine& engine) {
  RETURN_IF_ERROR(engine.executor().Run());
  const Program& program = engine.program();
  const absl::Span<const Interval> intervals = engine.executor().intervals();
  Computation found;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.group >= 0) continue;
    const Interval& ran = intervals[id.position()];
    const double seconds = SecondsBetween(ran.begin, ran.end);
    found.total += seconds;
    if (op.tag.phase == Phase::kForward) found.forward += seconds;
    if (op.tag.phase == Phase::kBackward || op.tag.phase == Phase::kRecompute)
      found.backward += seconds;
  }
  for (const auto& [key, seconds] : MeanSeconds(program, intervals))
    absl::StrAppendFormat(&found.table, "%s %.9g\n", key, seconds);
  return found;
}

int64_t PartsMeasurement::TransferCount() const {
  const EngineSpec& spec = options_.spec;
  return int64_t{spec.micro_batch_size} * spec.model.sequence_length * spec.model.hidden;
}

// Sends a micro-batch from the first stage to the second.
absl::Status PartsMeasurement::MeasureTransfer() {
  RETURN_IF_ERROR(DrainLink(job_.control()));
  transfers_.push_back(0);
  const GroupId group = FindGroup(job_.groups(), TransferGroupName(0, 1));
  if (group < 0) return absl::OkStatus();
  const TensorView view{.data = payload_.data(),
                        .dtype = options_.spec.wire_dtype,
                        .shape = {TransferCount(), 1, 1, 1},
                        .rank = 1};
  const int64_t begin = NowNanoseconds();
  RETURN_IF_ERROR(job_.links()[group.position()].host->Run(Collective::Broadcast(view, 0)));
  transfers_.back() = SecondsBetween(begin, NowNanoseconds());
  return absl::OkStatus();
}

absl::StatusOr<PipelineParts> PartsMeasurement::Medians() {
  PipelineParts parts;
  const auto middle_of = [](std::vector<Computation>& rounds) {
    const auto middle = rounds.begin() + std::ssize(rounds) / 2;
    std::nth_element(rounds.begin(), middle, rounds.end(),
                     [](const Computation& a, const Computation& b) { return a.total < b.total; });
    return *middle;
  };
  for (auto& [spread, computed] : computed_) {
    ASSIGN_OR_RETURN(const std::vector<std::string> tables,
                     trainer::ExchangeText(job_.control(), middle_of(computed.rounds).table));
    for (const std::string& table : tables) {
      ASSIGN_OR_RETURN(parts.tables[spread].emplace_back(), CostTable::Parse(table));
    }
  }
  const Computation middle = middle_of(first().rounds);
  const double micro_batches = options_.spec.micro_batches;
  ASSIGN_OR_RETURN(const auto all,
                   trainer::ExchangeNumbers(
                       job_.control(), {middle.forward / micro_batches,
                                        middle.backward / micro_batches, MedianOf(transfers_)}));
  for (const std::vector<double>& of_rank : all) {
    parts.seconds.push_back({.forward = of_rank[0], .backward = of_rank[1]});
    parts.forward_seconds = std::max(parts.forward_seconds, of_rank[0]);
    parts.backward_seconds = std::max(parts.backward_seconds, of_rank[1]);
    parts.transfer_seconds = std::max(parts.transfer_seconds, of_rank[2]);
  }
  return parts;
}

}  // namespace stretto::bench

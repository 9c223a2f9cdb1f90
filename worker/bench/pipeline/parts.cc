// SPDX-License-Identifier: Apache-2.0

// A round runs the computation alone, a transfer on a drained and on a rested link, and the
// computation again under transfers that follow each other. The last tells what the two take from
// each other. CPU time of a transfer would not: a core that waits for it wakes up more often than
// one that computes.

#include "worker/bench/pipeline/parts.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/inputs.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/overlap/simulate.h"
#include "worker/engine/cost/contention.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

// The part of a computation under which transfers run to measure their contention: less than all of
// it, so that few of them end behind it.
constexpr double kUnderTransfers = 0.9;

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
  RETURN_IF_ERROR(MeasureTransfers());
  return MeasureContention();
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

// The token bucket of the link fills up in the pause.
absl::Status PartsMeasurement::MeasureTransfers() {
  RETURN_IF_ERROR(DrainLink(job_.control()));
  ASSIGN_OR_RETURN(drained_.emplace_back(), TransferAlone());
  ASSIGN_OR_RETURN(const double pause, job_.Slowest(drained_.back()));
  std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  RETURN_IF_ERROR(job_.control().Run(Collective::Barrier()));
  ASSIGN_OR_RETURN(rested_.emplace_back(), TransferAlone());
  return absl::OkStatus();
}

// Seconds; 0 on ranks of other stages.
absl::StatusOr<double> PartsMeasurement::TransferAlone() {
  ASSIGN_OR_RETURN(const std::vector<Interval> sent, Transfers(1));
  return sent.empty() ? 0.0 : SecondsBetween(sent[0].begin, sent[0].end);
}

absl::Status PartsMeasurement::MeasureContention() {
  const double alone = first().rounds.back().total;
  ASSIGN_OR_RETURN(const auto all,
                   trainer::ExchangeNumbers(job_.control(), {alone, drained_.back()}));
  double computing = alone, transfer = 0;
  for (const std::vector<double>& of_rank : all) {
    computing = std::min(computing, of_rank[0]);
    transfer = std::max(transfer, of_rank[1]);
  }
  const int count = std::max(1, static_cast<int>(kUnderTransfers * computing / transfer));
  RETURN_IF_ERROR(DrainLink(job_.control()));
  absl::StatusOr<std::vector<Interval>> sent = std::vector<Interval>();
  std::thread transfers([&] { sent = Transfers(count); });
  const absl::StatusOr<Computation> under = Run(*first().engine);
  const int64_t computed = NowNanoseconds();
  transfers.join();
  RETURN_IF_ERROR(under.status());
  RETURN_IF_ERROR(sent.status());
  // What ended while this rank computed.
  while (sent->size() > 1 && sent->back().end > computed) sent->pop_back();
  const double both = sent->empty() ? 0 : SecondsBetween(sent->front().begin, sent->back().end);
  const auto share = [&](double lost) {
    return both > 0 ? std::clamp(lost / both, 0.0, kMostContention) : 0;
  };
  computation_loses_.push_back(share(under->total - alone));
  transfer_loses_.push_back(share(both - static_cast<double>(sent->size()) * transfer));
  return absl::OkStatus();
}

int64_t PartsMeasurement::TransferCount() const {
  const EngineSpec& spec = options_.spec;
  return int64_t{spec.micro_batch_size} * spec.model.sequence_length * spec.model.hidden;
}

// Sends `count` micro-batches from the first stage to the second, one after the other. Returns
// when; nothing on ranks of other stages.
absl::StatusOr<std::vector<Interval>> PartsMeasurement::Transfers(int count) {
  const GroupId group = FindGroup(job_.groups(), TransferGroupName(0, 1));
  const TensorView view{.data = payload_.data(),
                        .dtype = options_.spec.wire_dtype,
                        .shape = {TransferCount(), 1, 1, 1},
                        .rank = 1};
  std::vector<Interval> sent;
  if (group < 0) return sent;
  Communicator* link = job_.links()[group.position()].host;
  for (int i = 0; i < count; ++i) {
    const int64_t begin = NowNanoseconds();
    RETURN_IF_ERROR(link->Run(Collective::Broadcast(view, 0)));
    sent.push_back({begin, NowNanoseconds()});
  }
  return sent;
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
  parts.transfer_bytes =
      static_cast<double>(TransferCount()) * static_cast<double>(SizeOf(options_.spec.wire_dtype));
  const double micro_batches = options_.spec.micro_batches;
  const double share = options_.ranks.rank < 2 ? 0.5 : 0;  // of the ends of the transfer
  ASSIGN_OR_RETURN(const auto all,
                   trainer::ExchangeNumbers(
                       job_.control(),
                       {middle.forward / micro_batches, middle.backward / micro_batches,
                        MedianOf(drained_), MedianOf(rested_), share * MedianOf(computation_loses_),
                        share * MedianOf(transfer_loses_)}));
  for (const std::vector<double>& of_rank : all) {
    parts.seconds.push_back({.forward = of_rank[0], .backward = of_rank[1]});
    parts.forward_seconds = std::max(parts.forward_seconds, of_rank[0]);
    parts.backward_seconds = std::max(parts.backward_seconds, of_rank[1]);
    parts.transfer_seconds = std::max(parts.transfer_seconds, of_rank[2]);
    parts.rested_seconds = std::max(parts.rested_seconds, of_rank[3]);
    parts.contention.compute += of_rank[4];
    parts.contention.communication += of_rank[5];
  }
  return parts;
}

}  // namespace stretto::bench

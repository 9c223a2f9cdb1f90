// SPDX-License-Identifier: Apache-2.0

// Connects the ranks as a job does. A first look at what a step is made of, each alone (computation
// without transfers, and a transfer), decides the warm-ups of the order "slack". Then parity: two
// steps of each order against two of the serial oracle, which is one for all orders. Then rounds.
// Each of them measures the parts again and one step of every order, so that a machine whose speed
// drifts changes all of them alike. The simulator gets the medians and times each order.

#include "worker/bench/pipeline/measure.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/inputs.h"
#include "worker/bench/common/median.h"
#include "worker/bench/common/process_cpu.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/overlap/simulate.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/schedule/pipeline/order.h"
#include "worker/engine/schedule/pipeline/slack.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

using trainer::RankEngine;

constexpr double kMostCpu = 0.95;  // of a core, as contention

double Seconds(const Interval& interval) {
  return static_cast<double>(interval.end - interval.begin) * 1e-9;
}

// What one rank takes for its computations.
struct Computation {
  double forward = 0, backward = 0;  // of all micro-batches
  double total = 0;                  // and of the optimizer
  std::string table;                 // as CostTable::Parse reads it
};

// A transfer, as this rank takes part in it.
struct Sent {
  double seconds = 0, cpu = 0;
};

Computation ComputationOf(const Program& program, absl::Span<const Interval> intervals) {
  Computation found;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.group >= 0) continue;
    const double seconds = Seconds(intervals[id.position()]);
    found.total += seconds;
    if (op.tag.phase == Phase::kForward) found.forward += seconds;
    if (op.tag.phase == Phase::kBackward || op.tag.phase == Phase::kRecompute)
      found.backward += seconds;
  }
  for (const auto& [key, seconds] : MeanSeconds(program, intervals))
    absl::StrAppendFormat(&found.table, "%s %.9g\n", key, seconds);
  return found;
}

double SecondsBehindSend(const Program& program, const CostModel& cost) {
  double seconds = 0;
  for (OpId op : BehindSend(program)) seconds += cost.Alone(program, program.ops[op]);
  return seconds;
}

// By stage.
std::vector<int> WarmUpsOf(const EngineSpec& spec) {
  std::vector<int> warm_ups;
  for (int stage = 0; stage < spec.pp_size; ++stage) {
    const StageOfPipeline at =
        StageOfRank(spec, RankAt(spec, {.stage = stage}), spec.micro_batches);
    warm_ups.push_back(
        OrderFor(spec.schedule, at).InFlight(PassKind::kForward, PassKind::kBackward));
  }
  return warm_ups;
}

class Measurement {
 public:
  Measurement(const PipelineOptions& options, const std::function<void(const std::string&)>& say)
      : options_(options), say_(say) {}

  absl::StatusOr<PipelineResult> Run() {
    ASSIGN_OR_RETURN(job_, MeasuredJob::Connect(options_.spec, options_.ranks));
    ASSIGN_OR_RETURN(const auto compute, job_->Make(options_.spec, Variant::kComputeOnly));
    FillInputs(options_.spec, 1, *compute);
    RETURN_IF_ERROR(compute->executor().Run());  // touches the memory
    RETURN_IF_ERROR(MeasureParts(*compute));
    PipelineResult result;
    RETURN_IF_ERROR(Exchange(&result));
    std::vector<EngineSpec> specs;
    for (const OrderChoice& order : options_.orders) {
      ASSIGN_OR_RETURN(specs.emplace_back(), SpecOf(order, result.transfer_seconds));
      result.orders.push_back({.order = order, .warm_ups = WarmUpsOf(specs.back()), .steps = {}});
    }
    RETURN_IF_ERROR(CheckParity(specs));
    for (int round = 0; round < options_.ranks.repeats; ++round) {
      RETURN_IF_ERROR(MeasureParts(*compute));
      for (size_t i = 0; i < engines_.size(); ++i) {
        ASSIGN_OR_RETURN(const StepTime step, job_->Step(*engines_[i]));
        result.orders[i].steps.push_back(step.seconds);
      }
    }
    RETURN_IF_ERROR(Exchange(&result));
    for (size_t i = 0; i < specs.size(); ++i)
      RETURN_IF_ERROR(Simulated(specs[i], result, &result.orders[i]));
    return result;
  }

 private:
  Communicator& control() { return job_->control(); }

  // `transfer_seconds`, and the measured computations, decide the warm-ups of slack.
  absl::StatusOr<EngineSpec> SpecOf(const OrderChoice& order, double transfer_seconds) const {
    EngineSpec spec = options_.spec;
    spec.schedule.wgrad_delay = order.delay;
    if (order.order != kSlackOrder) {
      spec.schedule.pipeline = order.order;
      return spec;
    }
    std::vector<StageSeconds> stages(static_cast<size_t>(spec.pp_size));
    for (Rank r : IdRange<Rank>(spec.world_size())) {
      ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(spec, r));
      const StageSeconds& measured = seconds_[r.position()];
      StageSeconds& stage = stages.at(PlaceOf(spec, r).stage);
      stage.forward = std::max(stage.forward, measured.forward);
      stage.backward = std::max(stage.backward, measured.backward);
      stage.delayed = std::max(stage.delayed,
                               SecondsBehindSend(plan.program, {.table = tables_[r.position()]}));
    }
    const std::vector<BoundarySeconds> boundaries(stages.size() - 1,
                                                  {transfer_seconds, transfer_seconds});
    spec.schedule.warm_up = SlackWarmUps(stages, boundaries, spec.micro_batches);
    return spec;
  }

  // Keeps the engines of the orders.
  absl::Status CheckParity(const std::vector<EngineSpec>& specs) {
    ASSIGN_OR_RETURN(auto serial, job_->Make(options_.spec, Variant::kSerialOracle));
    ASSIGN_OR_RETURN(const auto oracle, job_->FirstSteps(*serial));
    serial.reset();
    for (size_t i = 0; i < specs.size(); ++i) {
      const std::string& name = options_.orders[i].name;
      ASSIGN_OR_RETURN(engines_.emplace_back(), job_->Make(specs[i], Variant::kSchedule));
      ASSIGN_OR_RETURN(const auto found, job_->FirstSteps(*engines_.back()));
      RETURN_IF_ERROR(job_->ExpectBits(absl::StrCat("order ", name), oracle, found));
      say_(absl::StrFormat("%s, warm-ups %s: %d steps bitwise equal to the serial oracle", name,
                           absl::StrJoin(WarmUpsOf(specs[i]), " "), trainer::kParitySteps));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureParts(RankEngine& compute) {
    RETURN_IF_ERROR(control().Run(Collective::Barrier()));
    RETURN_IF_ERROR(compute.executor().Run());
    computations_.push_back(ComputationOf(compute.program(), compute.executor().intervals()));
    return MeasureTransfers();
  }

  // On a link whose token bucket was drained, and after a pause in which it may fill up.
  absl::Status MeasureTransfers() {
    RETURN_IF_ERROR(DrainLink(control()));
    ASSIGN_OR_RETURN(const Sent drained, Transfer());
    ASSIGN_OR_RETURN(const double pause, job_->Slowest(drained.seconds));
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    RETURN_IF_ERROR(control().Run(Collective::Barrier()));
    ASSIGN_OR_RETURN(const Sent rested, Transfer());
    drained_.push_back(drained.seconds);
    cpu_shares_.push_back(drained.cpu / drained.seconds);
    rested_.push_back(rested.seconds);
    return absl::OkStatus();
  }

  int64_t TransferCount() const {
    const EngineSpec& spec = options_.spec;
    return int64_t{spec.micro_batch_size} * spec.model.sequence_length * spec.model.hidden;
  }

  // Sends all slices of a micro-batch from the first stage to the second.
  absl::StatusOr<Sent> Transfer() {
    const GroupId group = FindGroup(GroupsOf(options_.spec, job_->rank()), TransferGroupName(0, 1));
    std::vector<float> x(TransferCount());
    TensorView view{.data = x.data(),
                    .dtype = options_.spec.wire_dtype,
                    .shape = {std::ssize(x), 1, 1, 1},
                    .rank = 1};
    const double cpu = ProcessCpuSeconds();
    const int64_t begin = NowNanoseconds();
    if (group >= 0) {
      Communicator* link = job_->links()[group.position()].host;
      RETURN_IF_ERROR(link->Run(Collective::Broadcast(view, 0)));
    }
    return Sent{.seconds = static_cast<double>(NowNanoseconds() - begin) * 1e-9,
                .cpu = ProcessCpuSeconds() - cpu};
  }

  // Makes the medians of all rounds so far known to all ranks.
  absl::Status Exchange(PipelineResult* result) {
    PipelineResult found;
    const auto middle =
        computations_.begin() + static_cast<std::ptrdiff_t>(computations_.size() / 2);
    std::nth_element(computations_.begin(), middle, computations_.end(),
                     [](const Computation& a, const Computation& b) { return a.total < b.total; });
    ASSIGN_OR_RETURN(const std::vector<std::string> tables,
                     trainer::ExchangeText(control(), middle->table));
    tables_.clear();
    for (const std::string& table : tables) {
      ASSIGN_OR_RETURN(tables_.emplace_back(), CostTable::Parse(table));
    }
    const double micro_batches = options_.spec.micro_batches;
    const bool sends = options_.ranks.rank < 2;  // the ends of the measured transfer
    ASSIGN_OR_RETURN(const auto all,
                     trainer::ExchangeNumbers(
                         control(), {middle->forward / micro_batches,
                                     middle->backward / micro_batches, MedianOf(drained_),
                                     MedianOf(rested_), sends ? MedianOf(cpu_shares_) / 2 : 0}));
    seconds_.clear();
    for (const std::vector<double>& of_rank : all) {
      seconds_.push_back({.forward = of_rank[0], .backward = of_rank[1]});
      found.forward_seconds = std::max(found.forward_seconds, of_rank[0]);
      found.backward_seconds = std::max(found.backward_seconds, of_rank[1]);
      found.transfer_seconds = std::max(found.transfer_seconds, of_rank[2]);
      found.rested_seconds = std::max(found.rested_seconds, of_rank[3]);
      found.transfer_cpu += of_rank[4];
    }
    found.orders = std::move(result->orders);
    *result = std::move(found);
    return absl::OkStatus();
  }

  absl::Status Simulated(const EngineSpec& spec, const PipelineResult& measured,
                         OrderResult* result) {
    ASSIGN_OR_RETURN(const auto plans, BuildPlans(spec));
    result->activation_bytes = plans.front().arenas[ArenaClass::kActivation];
    const double bytes = static_cast<double>(TransferCount()) *
                         static_cast<double>(SizeOf(options_.spec.wire_dtype));
    const double rate = bytes / measured.transfer_seconds;
    const double saved = std::max(0.0, measured.transfer_seconds - measured.rested_seconds);
    ASSIGN_OR_RETURN(
        result->simulated,
        Played(plans, {.interconnect = {.bytes_per_second = rate, .burst_bytes = saved * rate},
                       .contention = {.compute = std::min(measured.transfer_cpu, kMostCpu)}}));
    ASSIGN_OR_RETURN(result->ideal, Played(plans, {}));
    return absl::OkStatus();
  }

  // `link` has the costs of communication.
  absl::StatusOr<double> Played(const IdVector<Rank, RankPlan>& plans, const CostModel& link) {
    std::vector<CostModel> costs;
    for (const CostTable& table : tables_) costs.emplace_back(link).table = table;
    std::vector<SimulatedRank> ranks;
    for (Rank r : plans.ids()) ranks.push_back({&plans[r].program, &costs[r.position()], {}});
    ASSIGN_OR_RETURN(const auto intervals, Simulate(ranks));
    double end = 0;
    for (const auto& of_rank : intervals) end = std::max(end, Seconds(SpanOf(of_rank)));
    return end;
  }

  const PipelineOptions& options_;
  const std::function<void(const std::string&)>& say_;
  std::unique_ptr<MeasuredJob> job_;
  std::vector<std::unique_ptr<RankEngine>> engines_;  // by order
  // Of this rank, by round.
  std::vector<Computation> computations_;
  std::vector<double> drained_, rested_, cpu_shares_;
  // By rank, of all rounds so far; StageSeconds without `delayed`.
  std::vector<CostTable> tables_;
  std::vector<StageSeconds> seconds_;
};

}  // namespace

double OrderResult::median() const { return MedianOf(steps); }

absl::StatusOr<PipelineResult> MeasurePipeline(const PipelineOptions& options,
                                               const std::function<void(const std::string&)>& say) {
  return Measurement(options, say).Run();
}

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0

// Connects the ranks as a job does, and makes an engine for every order. Parity first: two steps of
// each order against two of the serial oracle, which is one for all orders. Then the times of which
// a step is made, each alone: computation without transfers, and one transfer. Then rounds, in each
// of which every order runs one step. The simulator gets the measured times and says what each
// order should take.

#include "worker/bench/pipeline/measure.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/inputs.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/overlap/file_store.h"
#include "worker/bench/overlap/simulate.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/control.h"
#include "worker/trainer/parity.h"
#include "worker/trainer/rank_device.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::bench {
namespace {

using trainer::RankEngine;

constexpr int kTransfers = 7;       // of which the median counts
constexpr double kFreeLink = 1e18;  // bytes per second

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double Seconds(const Interval& interval) {
  return static_cast<double>(interval.end - interval.begin) * 1e-9;
}

// What one rank takes for its computations.
struct Computation {
  double forward = 0, backward = 0;  // of all micro-batches
  std::string table;                 // as CostTable::Parse reads it
};

Computation ComputationOf(const Program& program, absl::Span<const Interval> intervals) {
  Computation found;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.group >= 0) continue;
    const double seconds = Seconds(intervals[id.position()]);
    if (op.tag.phase == Phase::kForward) found.forward += seconds;
    if (op.tag.phase == Phase::kBackward || op.tag.phase == Phase::kRecompute)
      found.backward += seconds;
  }
  for (const auto& [key, seconds] : MeanSeconds(program, intervals))
    absl::StrAppendFormat(&found.table, "%s %.9g\n", key, seconds);
  return found;
}

class Measurement {
 public:
  Measurement(const PipelineOptions& options, const std::function<void(const std::string&)>& say)
      : options_(options), say_(say) {}

  absl::StatusOr<PipelineResult> Run() {
    RETURN_IF_ERROR(Connect());
    RETURN_IF_ERROR(CheckParity());
    PipelineResult result;
    RETURN_IF_ERROR(MeasureComputation(&result));
    ASSIGN_OR_RETURN(result.transfer_seconds, MeasureTransfer());
    for (const std::string& order : options_.orders) {
      result.orders.push_back({.order = order, .steps = {}});
      RETURN_IF_ERROR(Simulated(result.transfer_seconds, &result.orders.back()));
    }
    for (int round = 0; round < options_.repeats; ++round) {
      for (OrderResult& order : result.orders) {
        ASSIGN_OR_RETURN(order.steps.emplace_back(), Step(*engines_.at(order.order)));
      }
    }
    return result;
  }

 private:
  Communicator& control() { return device_->control(); }
  Rank rank() const { return Rank::Of(options_.rank); }
  EngineSpec SpecOf(const std::string& order) const {
    EngineSpec spec = options_.spec;
    spec.schedule.pipeline = order;
    return spec;
  }

  absl::Status Connect() {
    config_.engine = options_.spec;
    config_.rank = rank();
    config_.interface_address = options_.address;
    ASSIGN_OR_RETURN(device_, trainer::RankDevice::Open(config_));
    FileStore store(options_.rendezvous);
    return device_->Connect(store);
  }

  absl::StatusOr<std::unique_ptr<RankEngine>> Make(const std::string& order, Variant variant) {
    const EngineSpec spec = SpecOf(order);
    ASSIGN_OR_RETURN(auto engine, RankEngine::Create(spec, rank(), variant, device_->links(),
                                                     device_->backend(), {}));
    RETURN_IF_ERROR(engine->Initialise(kSeed));
    return engine;
  }

  absl::StatusOr<std::vector<trainer::StepResult>> Results(RankEngine& engine) {
    std::vector<trainer::StepResult> results;
    for (int step = 1; step <= trainer::kParitySteps; ++step) {
      FillInputs(options_.spec, step, engine);
      RETURN_IF_ERROR(engine.executor().Run());
      ASSIGN_OR_RETURN(results.emplace_back(), trainer::ResultOf(engine));
    }
    return results;
  }

  // Keeps the engines of the orders.
  absl::Status CheckParity() {
    ASSIGN_OR_RETURN(auto serial, Make(options_.orders.front(), Variant::kSerialOracle));
    ASSIGN_OR_RETURN(const auto oracle, Results(*serial));
    serial.reset();
    for (const std::string& order : options_.orders) {
      ASSIGN_OR_RETURN(engines_[order], Make(order, Variant::kSchedule));
      ASSIGN_OR_RETURN(const auto found, Results(*engines_[order]));
      ASSIGN_OR_RETURN(const bool differs,
                       trainer::AnyRank(control(), !trainer::SameBits(oracle, found)));
      if (differs) {
        return absl::InternalError(
            absl::StrCat("order ", order, ": found other bits than its serial oracle's"));
      }
      say_(absl::StrFormat("%s: %d steps bitwise equal to the serial oracle", order,
                           trainer::kParitySteps));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureComputation(PipelineResult* result) {
    ASSIGN_OR_RETURN(const auto engine, Make(options_.orders.front(), Variant::kComputeOnly));
    FillInputs(options_.spec, 1, *engine);
    for (int step = 0; step < 2; ++step) {  // the first touches the memory
      RETURN_IF_ERROR(control().Run(Collective::Barrier()));
      RETURN_IF_ERROR(engine->executor().Run());
    }
    const Computation mine = ComputationOf(engine->program(), engine->executor().intervals());
    ASSIGN_OR_RETURN(const std::vector<std::string> tables,
                     trainer::ExchangeText(control(), mine.table));
    for (const std::string& table : tables) {
      ASSIGN_OR_RETURN(tables_.emplace_back(), CostTable::Parse(table));
    }
    ASSIGN_OR_RETURN(const auto seconds,
                     trainer::ExchangeNumbers(control(), {mine.forward, mine.backward}));
    for (const std::vector<double>& of_rank : seconds) {
      const double micro_batches = options_.spec.micro_batches;
      result->forward_seconds = std::max(result->forward_seconds, of_rank[0] / micro_batches);
      result->backward_seconds = std::max(result->backward_seconds, of_rank[1] / micro_batches);
    }
    return absl::OkStatus();
  }

  // From the first stage to the second, of all slices of a micro-batch.
  absl::StatusOr<double> MeasureTransfer() {
    const EngineSpec& spec = options_.spec;
    const auto groups = GroupsOf(spec, rank());
    const GroupId group = FindGroup(groups, TransferGroupName(0, 1));
    std::vector<float> x(int64_t{spec.micro_batch_size} * spec.model.sequence_length *
                         spec.model.hidden);
    TensorView view{
        .data = x.data(), .dtype = spec.wire_dtype, .shape = {std::ssize(x), 1, 1, 1}, .rank = 1};
    std::vector<double> seconds;
    for (int i = 0; i < kTransfers; ++i) {
      RETURN_IF_ERROR(DrainLink(control()));
      const int64_t begin = NowNanoseconds();
      if (group >= 0) {
        Communicator* link = device_->links()[group.position()].host;
        RETURN_IF_ERROR(link->Run(Collective::Broadcast(view, 0)));
      }
      seconds.push_back(static_cast<double>(NowNanoseconds() - begin) * 1e-9);
    }
    return Slowest(MedianOf(seconds));
  }

  absl::StatusOr<double> Slowest(double mine) {
    ASSIGN_OR_RETURN(const auto all, trainer::ExchangeNumbers(control(), {mine}));
    double most = 0;
    for (const std::vector<double>& of_rank : all) most = std::max(most, of_rank[0]);
    return most;
  }

  absl::StatusOr<double> Step(RankEngine& engine) {
    RETURN_IF_ERROR(DrainLink(control()));
    const int64_t begin = NowNanoseconds();
    RETURN_IF_ERROR(engine.executor().Run());
    return Slowest(static_cast<double>(NowNanoseconds() - begin) * 1e-9);
  }

  absl::Status Simulated(double transfer_seconds, OrderResult* result) {
    const EngineSpec spec = SpecOf(result->order);
    ASSIGN_OR_RETURN(const auto plans, BuildPlans(spec));
    result->activation_bytes = plans.front().arenas[ArenaClass::kActivation];
    const double bytes = static_cast<double>(int64_t{spec.micro_batch_size} *
                                             spec.model.sequence_length * spec.model.hidden) *
                         static_cast<double>(SizeOf(spec.wire_dtype));
    ASSIGN_OR_RETURN(result->simulated, Played(plans, bytes / transfer_seconds));
    ASSIGN_OR_RETURN(result->ideal, Played(plans, kFreeLink));
    return absl::OkStatus();
  }

  absl::StatusOr<double> Played(const IdVector<Rank, RankPlan>& plans, double bytes_per_second) {
    std::vector<CostModel> costs;
    for (const CostTable& table : tables_) {
      CostModel& cost = costs.emplace_back();
      cost.table = table;
      cost.interconnect = {.bytes_per_second = bytes_per_second};
    }
    std::vector<SimulatedRank> ranks;
    for (Rank r : plans.ids()) ranks.push_back({&plans[r].program, &costs[r.position()]});
    ASSIGN_OR_RETURN(const auto intervals, Simulate(ranks));
    double end = 0;
    for (const auto& of_rank : intervals) end = std::max(end, Seconds(SpanOf(of_rank)));
    return end;
  }

  const PipelineOptions& options_;
  const std::function<void(const std::string&)>& say_;
  trainer::JobConfig config_;
  std::unique_ptr<trainer::RankDevice> device_;
  std::map<std::string, std::unique_ptr<RankEngine>> engines_;
  std::vector<CostTable> tables_;  // by rank
};

}  // namespace

double OrderResult::median() const { return MedianOf(steps); }

absl::StatusOr<PipelineResult> MeasurePipeline(const PipelineOptions& options,
                                               const std::function<void(const std::string&)>& say) {
  return Measurement(options, say).Run();
}

}  // namespace stretto::bench

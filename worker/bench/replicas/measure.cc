// SPDX-License-Identifier: Apache-2.0

// Connects the ranks as a job does. Parity first: the first steps of each variant against those of
// its serial oracle, and losses and norms with ZeRO against those without. Then rounds, in each of
// which each variant runs its computation alone, its collectives alone and one step.

#include "worker/bench/replicas/measure.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/inputs.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/exec/ledger.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

using trainer::RankEngine;
using trainer::StepResult;

// What is measured of a program in one run.
struct Sample {
  StepTime time;
  double hidden;  // the share of communication that ran under computation
};

struct TimedEngine {
  std::unique_ptr<RankEngine> engine;
  std::vector<Sample> samples;
};

// What one variant needs.
struct Runs {
  TimedEngine step, computation, communication;
};

double MedianOf(const TimedEngine& timed, double StepTime::*field) {
  std::vector<double> values;
  for (const Sample& sample : timed.samples) values.push_back(sample.time.*field);
  return stretto::MedianOf(std::move(values));
}

class Measurement {
 public:
  Measurement(const ReplicasOptions& options, const Say& say) : options_(options), say_(say) {}

  absl::StatusOr<ReplicasResult> Run() {
    ASSIGN_OR_RETURN(job_, MeasuredJob::Connect({options_.spec}, options_.ranks));
    EngineSpec synchronous = options_.spec, zero = options_.spec;
    synchronous.schedule = {.name = "megatron_sync", .slices = {options_.spec.micro_batch_size}};
    zero.zero = 1;
    std::vector<VariantResult> results = {
        {.name = "synchronous", .spec = synchronous, .steps = {}},
        {.name = "all_reduce", .spec = options_.spec, .steps = {}},
        {.name = "zero", .spec = zero, .steps = {}}};
    std::vector<Runs> runs(results.size());
    std::vector<std::vector<StepResult>> oracles;
    for (size_t i = 0; i < results.size(); ++i) {
      ASSIGN_OR_RETURN(oracles.emplace_back(), Prepare(&results[i], &runs[i]));
    }
    RETURN_IF_ERROR(ExpectSameLosses(oracles[1], oracles[2]));
    std::vector<TimedProgram> programs;
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = results[i].name;
      programs.push_back(
          ProgramOf(absl::StrCat(name, ": computation alone"), &runs[i].computation));
      programs.push_back(
          ProgramOf(absl::StrCat(name, ": communication alone"), &runs[i].communication));
      programs.push_back(ProgramOf(name, &runs[i].step));
    }
    ASSIGN_OR_RETURN(Rounds rounds, TimeInRounds(programs, options_.ranks.repeats, 1, say_));
    for (size_t i = 0; i < results.size(); ++i) RETURN_IF_ERROR(Evaluate(runs[i], &results[i]));
    return ReplicasResult{std::move(results), std::move(rounds)};
  }

 private:
  // Proves parity and makes the engines. Returns the results of the oracle.
  absl::StatusOr<std::vector<StepResult>> Prepare(VariantResult* result, Runs* runs) {
    ASSIGN_OR_RETURN(auto serial, job_->Make(result->spec, Variant::kSerialOracle));
    ASSIGN_OR_RETURN(std::vector<StepResult> oracle, job_->FirstSteps(*serial));
    serial.reset();
    ASSIGN_OR_RETURN(runs->step.engine, job_->Make(result->spec, Variant::kSchedule));
    ASSIGN_OR_RETURN(const std::vector<StepResult> found, job_->FirstSteps(*runs->step.engine));
    RETURN_IF_ERROR(job_->ExpectBits(absl::StrCat("variant ", result->name), oracle, found));
    say_(absl::StrFormat("%s: %d steps bitwise equal to the serial oracle", result->name,
                         trainer::kParitySteps));
    result->optimizer_bytes = runs->step.engine->arenas()[ArenaClass::kOptimizer];
    for (const auto& [variant, timed] : {std::pair(Variant::kComputeOnly, &runs->computation),
                                         {Variant::kCommunicationOnly, &runs->communication}}) {
      ASSIGN_OR_RETURN(timed->engine, job_->Make(result->spec, variant));
      FillInputs(result->spec, 1, *timed->engine);
      RETURN_IF_ERROR(timed->engine->executor().Run());  // touches the memory
    }
    return oracle;
  }

  // Gradients differ, because with ZeRO only a part of them is added up.
  absl::Status ExpectSameLosses(const std::vector<StepResult>& plain,
                                const std::vector<StepResult>& zero) {
    bool mine = false;
    for (size_t step = 0; step < plain.size(); ++step) {
      mine |= plain[step].loss != zero[step].loss ||
              plain[step].gradient_norm != zero[step].gradient_norm;
    }
    ASSIGN_OR_RETURN(const bool differs, trainer::AnyRank(job_->control(), mine));
    if (!differs) return absl::OkStatus();
    return absl::InternalError("variant zero: found other losses or norms than without ZeRO");
  }

  TimedProgram ProgramOf(std::string name, TimedEngine* timed) {
    return Timed<Sample>(
        std::move(name), &timed->samples, [this, timed] { return Time(timed); },
        [](const Sample& sample) { return sample.time.seconds; });
  }

  absl::Status Time(TimedEngine* timed) {
    ASSIGN_OR_RETURN(const StepTime time, job_->Step(*timed->engine));
    const absl::Span<const Interval> intervals = timed->engine->executor().intervals();
    const StepLedger ledger =
        ComputeLedger(timed->engine->program(), intervals, {}, SpanOf(intervals));
    timed->samples.push_back({time, ledger.overlap_ratio()});
    return absl::OkStatus();
  }

  absl::Status Evaluate(const Runs& runs, VariantResult* result) {
    result->compute = MedianOf(runs.computation, &StepTime::seconds);
    result->comm = MedianOf(runs.communication, &StepTime::seconds);
    ASSIGN_OR_RETURN(result->comm_cpu,
                     job_->Slowest(MedianOf(runs.communication, &StepTime::cpu_seconds)));
    std::vector<double> hidden;
    for (const Sample& sample : runs.step.samples) {
      result->steps.push_back(sample.time.seconds);
      hidden.push_back(sample.hidden);
    }
    // The ranks agree on the smallest share.
    ASSIGN_OR_RETURN(const double exposed, job_->Slowest(1 - stretto::MedianOf(std::move(hidden))));
    result->hidden_interval = 1 - exposed;
    return absl::OkStatus();
  }

  const ReplicasOptions& options_;
  const Say& say_;
  std::unique_ptr<MeasuredJob> job_;
};

}  // namespace

double VariantResult::median() const { return stretto::MedianOf(steps); }

double VariantResult::ideal() const { return std::max(compute + comm_cpu, comm); }

double VariantResult::hidden() const {
  return std::clamp((compute + comm - median()) / comm, 0.0, hidden_interval);
}

double VariantResult::most_hidden() const { return (compute + comm - ideal()) / comm; }

absl::StatusOr<ReplicasResult> MeasureReplicas(const ReplicasOptions& options, const Say& say) {
  return Measurement(options, say).Run();
}

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0

// Connects the ranks as a job does. Parity first: the first steps of each variant against those of
// its serial oracle, and losses and norms with ZeRO against those without. Then rounds, in each of
// which each variant runs its computation alone, its collectives alone and one step, so that a
// machine whose speed drifts changes all of them alike.

#include "worker/bench/replicas/measure.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/inputs.h"
#include "worker/bench/common/median.h"
#include "worker/bench/ranks/measured_job.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/exec/ledger.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

using trainer::RankEngine;
using trainer::StepResult;

// What one variant needs, and its samples of all rounds.
struct Runs {
  std::unique_ptr<RankEngine> step, computation, communication;
  std::vector<double> compute, comm, comm_cpu, hidden;
};

std::vector<ProgramRounds> RoundsOf(const std::vector<VariantResult>& results,
                                    const std::vector<Runs>& runs) {
  std::vector<ProgramRounds> rounds;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = results[i].name;
    rounds.push_back({name, results[i].steps});
    rounds.push_back({absl::StrCat(name, ": computation alone"), runs[i].compute});
    rounds.push_back({absl::StrCat(name, ": communication alone"), runs[i].comm});
  }
  return rounds;
}

class Measurement {
 public:
  Measurement(const ReplicasOptions& options, const std::function<void(const std::string&)>& say)
      : options_(options), say_(say) {}

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
    for (int round = 0; round < options_.ranks.repeats; ++round) {
      for (size_t i = 0; i < results.size(); ++i)
        RETURN_IF_ERROR(MeasureRound(&results[i], &runs[i]));
    }
    const std::vector<Disturbance> disturbed = DisturbancesOf(RoundsOf(results, runs));
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].compute = MedianOf(runs[i].compute);
      results[i].comm = MedianOf(runs[i].comm);
      ASSIGN_OR_RETURN(results[i].comm_cpu, job_->Slowest(MedianOf(runs[i].comm_cpu)));
      // The ranks agree on the smallest share.
      ASSIGN_OR_RETURN(const double exposed, job_->Slowest(1 - MedianOf(runs[i].hidden)));
      results[i].hidden_interval = 1 - exposed;
    }
    return ReplicasResult{std::move(results), disturbed};
  }

 private:
  // Proves parity and makes the engines. Returns the results of the oracle.
  absl::StatusOr<std::vector<StepResult>> Prepare(VariantResult* result, Runs* runs) {
    ASSIGN_OR_RETURN(auto serial, job_->Make(result->spec, Variant::kSerialOracle));
    ASSIGN_OR_RETURN(std::vector<StepResult> oracle, job_->FirstSteps(*serial));
    serial.reset();
    ASSIGN_OR_RETURN(runs->step, job_->Make(result->spec, Variant::kSchedule));
    ASSIGN_OR_RETURN(const std::vector<StepResult> found, job_->FirstSteps(*runs->step));
    RETURN_IF_ERROR(job_->ExpectBits(absl::StrCat("variant ", result->name), oracle, found));
    say_(absl::StrFormat("%s: %d steps bitwise equal to the serial oracle", result->name,
                         trainer::kParitySteps));
    result->optimizer_bytes = runs->step->arenas()[ArenaClass::kOptimizer];
    for (const auto& [variant, engine] : {std::pair(Variant::kComputeOnly, &runs->computation),
                                          {Variant::kCommunicationOnly, &runs->communication}}) {
      ASSIGN_OR_RETURN(*engine, job_->Make(result->spec, variant));
      FillInputs(result->spec, 1, **engine);
      RETURN_IF_ERROR((*engine)->executor().Run());  // touches the memory
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

  absl::Status MeasureRound(VariantResult* result, Runs* runs) {
    ASSIGN_OR_RETURN(const StepTime compute, job_->Step(*runs->computation));
    ASSIGN_OR_RETURN(const StepTime comm, job_->Step(*runs->communication));
    ASSIGN_OR_RETURN(const StepTime step, job_->Step(*runs->step));
    runs->compute.push_back(compute.seconds);
    runs->comm.push_back(comm.seconds);
    runs->comm_cpu.push_back(comm.cpu_seconds);
    result->steps.push_back(step.seconds);
    const absl::Span<const Interval> intervals = runs->step->executor().intervals();
    runs->hidden.push_back(
        ComputeLedger(runs->step->program(), intervals, {}, SpanOf(intervals)).overlap_ratio());
    return absl::OkStatus();
  }

  const ReplicasOptions& options_;
  const std::function<void(const std::string&)>& say_;
  std::unique_ptr<MeasuredJob> job_;
};

}  // namespace

double VariantResult::median() const { return MedianOf(steps); }

double VariantResult::ideal() const { return std::max(compute + comm_cpu, comm); }

double VariantResult::hidden() const {
  return std::clamp((compute + comm - median()) / comm, 0.0, hidden_interval);
}

double VariantResult::most_hidden() const { return (compute + comm - ideal()) / comm; }

absl::StatusOr<ReplicasResult> MeasureReplicas(const ReplicasOptions& options,
                                               const std::function<void(const std::string&)>& say) {
  return Measurement(options, say).Run();
}

}  // namespace stretto::bench

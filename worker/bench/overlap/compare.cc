// SPDX-License-Identifier: Apache-2.0

// Parity comes first: a schedule whose bits differ from the serial oracle's is not timed. The
// parity steps also choose the slicing of each schedule. Then all programs are timed in rounds, a
// few steps of each in turn, so that a change of the machine's speed affects all. Programs with the
// same text are measured once. Finally each schedule is simulated: with the measured costs without
// contention, which is what its order could hide, and with those of a calibration, which were
// measured before it and without it, which predicts its time. A second prediction has computations
// that were measured one by one in the same rounds: what it is nearer by is the machine's change of
// speed since the calibration.

#include "worker/bench/overlap/compare.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/spec/schedules.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/overlap/interleaved_costs.h"
#include "worker/bench/overlap/plans.h"
#include "worker/bench/overlap/programs.h"
#include "worker/engine/cost/work.h"
#include "worker/engine/program/text.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::bench {
namespace {

// How long t_occupy's blocks stay, relative to the schedule's own time.
constexpr double kOccupied = 1.5;

// Names a program by its schedule and what it has of it.
std::string NameOf(const Choice& choice, Variant variant, const Occupation& occupation) {
  std::string part;
  if (variant == Variant::kSerialOracle) part = ": on one lane";
  if (variant == Variant::kCommunicationOnly) part = ": communication alone";
  if (variant == Variant::kComputeOnly) {
    part = occupation.calls > 0 ? ": computation on a busy link" : ": computation alone";
  }
  return absl::StrCat(Describe(choice), part);
}

class Comparer {
 public:
  Comparer(const OverlapOptions& options, Rig& rig, const Say& say, const Keep& keep)
      : options_(options), rig_(rig), say_(say), keep_(keep) {}

  absl::StatusOr<Comparison> Run() {
    if (options_.costs) RETURN_IF_ERROR(ExpectThisCpu(*options_.costs));
    ASSIGN_OR_RETURN(result_.link, rig_.MeasureLink());
    for (const std::string& name : SchedulesOf(options_)) {
      RETURN_IF_ERROR(Search(name, &finalists_));
    }
    if (!finalists_.empty()) {
      RETURN_IF_ERROR(AddAll());
      RETURN_IF_ERROR(TimeAll());
      ASSIGN_OR_RETURN(result_, SoFar());
    }
    result_.finished = true;
    return std::move(result_);
  }

 private:
  // Appends the choice with the fastest parity steps, or all that passed with --every-choice. If
  // there is none, an error of the result has the reason.
  absl::Status Search(const std::string& schedule, std::vector<Candidate>* finalists) {
    std::vector<Candidate> passed;
    std::set<std::string> programs;
    absl::Status refused;  // the first: choices begin with the simplest
    for (Choice& choice : ChoicesOf(options_, schedule)) {
      if (const absl::Status valid = trainer::Validate(choice.spec); !valid.ok()) {
        refused.Update(valid);
        continue;
      }
      if (const absl::Status set = SetPlan(options_.costs, &choice); !set.ok()) {
        if (options_.costs) return set;
        refused.Update(set);  // it needs costs; other plans may not
        say_(absl::StrCat(Describe(choice), ": left out: ", set.message()));
        continue;
      }
      const absl::StatusOr<RankPlan> plan = BuildPlan(choice.spec, Rank::Of(options_.rank));
      RETURN_IF_ERROR(plan.status());
      if (options_.costs) RETURN_IF_ERROR(ExpectOperations(*options_.costs, plan->program));
      if (!programs.insert(Print(plan->program)).second) continue;
      ASSIGN_OR_RETURN(Parity parity, rig_.CheckParity(choice.spec));
      Candidate candidate{std::move(choice), std::move(parity)};
      say_(absl::StrFormat("%s: parity %s, %.3f s", Describe(candidate.choice),
                           candidate.parity.passed ? "passed" : "FAILED",
                           candidate.parity.seconds));
      result_.candidates.push_back(candidate);
      if (!candidate.parity.passed) {
        result_.errors.push_back(absl::StrCat(Describe(candidate.choice),
                                              ": parity failed: ", candidate.parity.message));
      } else {
        passed.push_back(std::move(candidate));
      }
    }
    if (programs.empty()) {
      // With all schedules, some do not fit this work; by its name, one was asked for.
      const bool asked = !options_.schedules.empty();
      (asked ? result_.errors : result_.refused)
          .push_back(absl::StrCat(schedule, ": no choice fits: ", refused.message()));
      say_(absl::StrCat(schedule, ": refused: ", refused.message()));
    }
    if (passed.size() > 1 && !options_.every_choice) {
      passed = {*absl::c_min_element(passed, [](const Candidate& a, const Candidate& b) {
        return a.parity.seconds < b.parity.seconds;
      })};
    }
    finalists->insert(finalists->end(), passed.begin(), passed.end());
    return absl::OkStatus();
  }

  // Registers a program; equal programs of several candidates are measured once.
  absl::StatusOr<const Measured*> Add(const Choice& choice, Variant variant,
                                      const Occupation& occupation = {}) {
    ASSIGN_OR_RETURN(RankPlan plan, BuildPlan(choice.spec, Rank::Of(options_.rank), variant));
    if (occupation.calls > 0) RETURN_IF_ERROR(Occupy(occupation, &plan));
    const std::string text = Print(plan.program);
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (texts_[i] == text) return &measured_[i];
    }
    texts_.push_back(text);
    names_.push_back(NameOf(choice, variant, occupation));
    measured_.push_back({.spec = choice.spec,
                         .variant = variant,
                         .occupation = occupation,
                         .activations = plan.arenas[ArenaClass::kActivation]});
    return &measured_.back();
  }

  absl::Status AddAll() {
    const Choice unsliced{options_.Unsliced()};
    ASSIGN_OR_RETURN(const Measured* comp, Add(unsliced, Variant::kComputeOnly));
    ASSIGN_OR_RETURN(const Measured* comm, Add(unsliced, Variant::kCommunicationOnly));
    ASSIGN_OR_RETURN(const Measured* serial, Add(unsliced, Variant::kSchedule));
    for (const Candidate& finalist : finalists_) {
      ASSIGN_OR_RETURN(const Measured* overlap, Add(finalist.choice, Variant::kSchedule));
      ASSIGN_OR_RETURN(const Measured* oracle, Add(finalist.choice, Variant::kSerialOracle));
      ASSIGN_OR_RETURN(const Measured* comp_sliced, Add(finalist.choice, Variant::kComputeOnly));
      programs_.push_back({comp, comm, serial, overlap, oracle, comp_sliced});
      ASSIGN_OR_RETURN(programs_.back().occupied, AddOccupied(finalist));
      programs_.back().last = measured_.size() - 1;
    }
    return absl::OkStatus();
  }

  absl::Status TimeAll() {
    std::vector<TimedProgram> programs;
    if (options_.costs && rig_.communicator() != nullptr) {
      for (const Candidate& finalist : finalists_) {
        ASSIGN_OR_RETURN(const RankPlan plan,
                         DraftPlan(finalist.choice.spec, Rank::Of(options_.rank)));
        interleaved_.Add(plan.program);
      }
      ASSIGN_OR_RETURN(programs.emplace_back(), interleaved_.Start(options_.steps, rig_));
    }
    for (size_t i = 0; i < measured_.size(); ++i) {
      Measured& measured = measured_[i];
      programs.push_back(Timed<bench::Run>(
          names_[i], &measured.runs, [this, i] { return TimeOne(i); },
          [](const bench::Run& run) { return run.slowest.step.seconds; }));
    }
    ASSIGN_OR_RETURN(result_.rounds,
                     TimeInRounds(programs, options_.repeats, options_.steps, say_));
    return absl::OkStatus();
  }

  absl::Status TimeOne(size_t i) {
    Measured& measured = measured_[i];
    RETURN_IF_ERROR(rig_.Time(&measured));
    say_(absl::StrFormat("%s: %.2f ms", names_[i], MedianOfSteps(measured) * 1e3));
    const auto ends = [&](const Programs& programs) { return programs.last == i; };
    if (!keep_ || !absl::c_any_of(programs_, ends)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Comparison so_far, SoFar());
    return keep_(so_far);
  }

  // Returns the result with the schedules all of whose programs have been timed.
  absl::StatusOr<Comparison> SoFar() const {
    Comparison result = result_;
    const Measured& comm = *programs_.front().comm;
    CountWire(comm.program, &result);
    CheckBound("t_comm", MedianOfSteps(comm), "its time on the wire",
               result.wire_seconds.value_or(0), &result);
    for (size_t i = 0; i < finalists_.size(); ++i) {
      if (measured_[programs_[i].last].runs.empty()) continue;
      ASSIGN_OR_RETURN(ScheduleResult schedule, Evaluate(finalists_[i], programs_[i]));
      CheckBound(absl::StrCat("t_overlap of ", Describe(finalists_[i].choice)),
                 schedule.figures.step.t_overlap, "its bound", schedule.figures.bound(), &result);
      result.schedules.push_back(std::move(schedule));
    }
    return result;
  }

  // Returns null for a real link.
  absl::StatusOr<const Measured*> AddOccupied(const Candidate& candidate) {
    const EmulatedLinkOptions* link = rig_.emulated();
    if (link == nullptr) return nullptr;
    ASSIGN_OR_RETURN(const RankPlan plan,
                     BuildPlan(candidate.choice.spec, Rank::Of(options_.rank)));
    // Waits make the schedule longer than the computation alone, and the blocks must cover all of
    // it.
    return Add(candidate.choice, Variant::kComputeOnly,
               OccupationOf(plan.program, *link, kOccupied * candidate.parity.seconds));
  }

  // `communication` has the unsliced collectives. Those of the loss, a few numbers of each token,
  // belong to no layer.
  void CountWire(const Program& communication, Comparison* result) const {
    const double n = options_.ranks;
    double bytes = 0, emulated = 0, least = std::numeric_limits<double>::infinity();
    for (const Op& op : communication.ops) {
      if (op.tag.phase == Phase::kOptimizer || !IsCollective(op.kind)) continue;
      const int passes = InfoOf(InfoOf(op.kind).collective).ring_passes;
      const double sent = passes * (n - 1) / n * static_cast<double>(WireBytes(communication, op));
      bytes += sent;
      if (op.tag.layer >= 0) least = std::min(least, sent);
      if (rig_.emulated()) emulated += SecondsOf(*rig_.emulated(), communication, op);
    }
    result->wire_bytes = static_cast<int64_t>(bytes);
    if (std::isfinite(least)) result->least_collective_bytes = static_cast<int64_t>(least);
    if (rig_.emulated()) result->wire_seconds = emulated;
    if (options_.gbps == 0) return;
    result->wire_seconds = bytes * 8 / (kPayloadShare * options_.gbps * 1e9);
  }

  // Only for links with a known rate. On loopback the time of a collective depends on what else
  // runs, so its time alone bounds nothing.
  static void CheckBound(const std::string& name, double seconds, const std::string& bound_name,
                         double bound, Comparison* result) {
    if (!result->wire_seconds) return;
    std::string error = MeasuringError(name, seconds, bound_name, bound);
    if (!error.empty()) result->errors.push_back(std::move(error));
  }

  absl::StatusOr<ScheduleResult> Evaluate(const Candidate& candidate,
                                          const Programs& programs) const {
    ScheduleResult result;
    result.candidate = candidate;
    result.figures = {.forward = MediansOf(programs, &StepSample::forward),
                      .backward = MediansOf(programs, &StepSample::backward),
                      .step = MediansOf(programs, &StepSample::step),
                      .paired = MediansOf(programs, &StepSample::paired),
                      .micro_batches = candidate.choice.spec.micro_batches,
                      .mixes_phases = MixesPhases(programs.overlap->program)};
    result.activations = programs.overlap->activations;
    result.serial_activations = programs.serial->activations;
    result.t_optimizer = MedianOfOptimizers(*programs.overlap);
    for (const bench::Run& run : programs.overlap->runs)
      result.samples.push_back(run.slowest.step.seconds);
    if (programs.occupied != nullptr) result.t_occupy = MedianOfSteps(*programs.occupied);
    CostModel cost;
    cost.interconnect = LinkOf(*programs.comm, result_.link.latency_seconds);
    cost.table = TableOf(*programs.comp_sliced);
    result.slowdown = SlowdownOf(*programs.overlap, cost);
    const Simulands simulands{programs.overlap->program, programs.oracle->program,
                              programs.comm->program};
    ASSIGN_OR_RETURN(result.ceiling, SimulateFigures(simulands, cost));
    if (!options_.costs) return result;
    ASSIGN_OR_RETURN(result.predicted, Predict(simulands, *options_.costs));
    if (const std::optional<CostProfile> costs = interleaved_.In(*options_.costs)) {
      ASSIGN_OR_RETURN(result.predicted_interleaved, Predict(simulands, *costs));
    }
    return result;
  }

  const OverlapOptions& options_;
  Rig& rig_;
  const Say& say_;
  const Keep& keep_;
  Comparison result_;  // without schedules until the end
  std::vector<Candidate> finalists_;
  std::vector<Programs> programs_;          // of them
  std::deque<Measured> measured_;           // in the order of a round; a deque keeps addresses
  std::vector<std::string> texts_, names_;  // of them
  InterleavedCosts interleaved_;
};

}  // namespace

absl::StatusOr<Comparison> Compare(const OverlapOptions& options, Rig& rig, const Say& say,
                                   const Keep& keep) {
  const std::vector<std::string> known = ScheduleNames();
  for (const std::string& name : options.schedules) {
    if (absl::c_linear_search(known, name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--schedules: found '", name, "', expected some of ", absl::StrJoin(known, ", ")));
  }
  return Comparer(options, rig, say, keep).Run();
}

}  // namespace stretto::bench

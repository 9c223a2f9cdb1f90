// SPDX-License-Identifier: Apache-2.0

// Parity comes first: a schedule whose bits differ from the serial oracle's is not timed. The
// parity steps also choose the slicing of each schedule. Then all programs are timed in rounds, a
// few steps of each in turn, so that a change of the machine's speed affects all. Programs with the
// same text are measured once. Finally each schedule is simulated: with the measured costs without
// contention, which is what its order could hide, and with those of a calibration, which were
// measured before it and without it, which predicts its time.

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
#include "worker/bench/overlap/plans.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/cost/work.h"
#include "worker/engine/program/text.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::bench {
namespace {

// How long t_occupy's blocks stay, relative to the schedule's own time.
constexpr double kOccupied = 1.5;

template <class Get>
double MedianOfRuns(const Measured& measured, Get get) {
  std::vector<double> values;
  for (const Run& run : measured.runs) values.push_back(get(run.slowest));
  return MedianOf(std::move(values));
}

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

// Measurements of a schedule and of the programs that bound it.
struct Programs {
  const Measured *comp, *comm, *serial;            // of megatron_sync, unsliced
  const Measured *overlap, *oracle, *comp_sliced;  // of the schedule
  const Measured* occupied = nullptr;              // only over an emulated link
};

PhaseMedians MediansOf(const Programs& programs, PhaseSample StepSample::*phase) {
  const auto median = [&](const Measured* measured, double PhaseSample::*field) {
    return MedianOfRuns(*measured, [&](const StepSample& s) { return s.*phase.*field; });
  };
  constexpr auto seconds = &PhaseSample::seconds;
  return {.t_comp = median(programs.comp, seconds),
          .t_comm = median(programs.comm, seconds),
          .comm_cpu = median(programs.comm, &PhaseSample::cpu),
          .t_serial = median(programs.serial, seconds),
          .t_serial_sliced = median(programs.oracle, seconds),
          .t_overlap = median(programs.overlap, seconds),
          .t_comp_sliced = median(programs.comp_sliced, seconds),
          .hidden_interval = 1 - median(programs.overlap, &PhaseSample::exposed_share)};
}

class Comparer {
 public:
  Comparer(const OverlapOptions& options, Rig& rig, const Say& say)
      : options_(options), rig_(rig), say_(say) {}

  absl::StatusOr<Comparison> Run() {
    if (options_.costs) RETURN_IF_ERROR(ExpectThisCpu(*options_.costs));
    ASSIGN_OR_RETURN(result_.link, rig_.MeasureLink());
    std::vector<Candidate> finalists;
    for (const std::string& name : SchedulesOf(options_)) {
      RETURN_IF_ERROR(Search(name, &finalists));
    }
    if (!finalists.empty()) RETURN_IF_ERROR(Measure(finalists));
    return std::move(result_);
  }

 private:
  // Appends the choice with the fastest parity steps, or all that passed with --every-choice. If
  // there is none, an error of the result has the reason.
  absl::Status Search(const std::string& schedule, std::vector<Candidate>* finalists) {
    std::vector<Candidate> passed;
    std::set<std::string> programs;
    absl::Status refused;
    for (Choice& choice : ChoicesOf(options_, schedule)) {
      if (const absl::Status valid = trainer::Validate(choice.spec); !valid.ok()) {
        refused = valid;
        continue;
      }
      if (const absl::Status set = SetPlan(options_.costs, &choice); !set.ok()) {
        if (options_.costs) return set;
        refused = set;  // it needs costs; other plans may not
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

  absl::Status Measure(const std::vector<Candidate>& finalists) {
    const Choice unsliced{options_.Unsliced()};
    ASSIGN_OR_RETURN(const Measured* comp, Add(unsliced, Variant::kComputeOnly));
    ASSIGN_OR_RETURN(const Measured* comm, Add(unsliced, Variant::kCommunicationOnly));
    ASSIGN_OR_RETURN(const Measured* serial, Add(unsliced, Variant::kSchedule));
    std::vector<Programs> programs;
    for (const Candidate& finalist : finalists) {
      ASSIGN_OR_RETURN(const Measured* overlap, Add(finalist.choice, Variant::kSchedule));
      ASSIGN_OR_RETURN(const Measured* oracle, Add(finalist.choice, Variant::kSerialOracle));
      ASSIGN_OR_RETURN(const Measured* comp_sliced, Add(finalist.choice, Variant::kComputeOnly));
      programs.push_back({comp, comm, serial, overlap, oracle, comp_sliced});
      ASSIGN_OR_RETURN(programs.back().occupied, AddOccupied(finalist));
    }
    RETURN_IF_ERROR(TimeAll());
    CountWire(comm->program);
    const double t_comm = MedianOfRuns(*comm, [](const StepSample& s) { return s.step.seconds; });
    CheckBound("t_comm", t_comm, "its time on the wire", result_.wire_seconds.value_or(0));
    for (size_t i = 0; i < finalists.size(); ++i) {
      ASSIGN_OR_RETURN(ScheduleResult result, Evaluate(finalists[i], programs[i]));
      if (const Measured* occupied = programs[i].occupied) {
        result.t_occupy =
            MedianOfRuns(*occupied, [](const StepSample& s) { return s.step.seconds; });
      }
      result_.schedules.push_back(std::move(result));
    }
    return absl::OkStatus();
  }

  absl::Status TimeAll() {
    std::vector<TimedProgram> programs;
    for (size_t i = 0; i < measured_.size(); ++i) {
      Measured& measured = measured_[i];
      programs.push_back(Timed<bench::Run>(
          names_[i], &measured.runs, [&] { return rig_.Time(&measured); },
          [](const bench::Run& run) { return run.slowest.step.seconds; }));
    }
    ASSIGN_OR_RETURN(result_.rounds,
                     TimeInRounds(programs, options_.repeats, options_.steps, say_));
    return absl::OkStatus();
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
  void CountWire(const Program& communication) {
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
    result_.wire_bytes = static_cast<int64_t>(bytes);
    if (std::isfinite(least)) result_.least_collective_bytes = static_cast<int64_t>(least);
    if (rig_.emulated()) result_.wire_seconds = emulated;
    if (options_.gbps == 0) return;
    result_.wire_seconds = bytes * 8 / (kPayloadShare * options_.gbps * 1e9);
  }

  // Only for links with a known rate. On loopback the time of a collective depends on what else
  // runs, so its time alone bounds nothing.
  void CheckBound(const std::string& name, double seconds, const std::string& bound_name,
                  double bound) {
    if (!result_.wire_seconds) return;
    std::string error = MeasuringError(name, seconds, bound_name, bound);
    if (!error.empty()) result_.errors.push_back(std::move(error));
  }

  absl::StatusOr<ScheduleResult> Evaluate(const Candidate& candidate, const Programs& programs) {
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
    result.t_optimizer =
        MedianOfRuns(*programs.overlap, [](const StepSample& s) { return s.optimizer; });
    for (const bench::Run& run : programs.overlap->runs)
      result.samples.push_back(run.slowest.step.seconds);
    CheckBound(absl::StrCat("t_overlap of ", Describe(candidate.choice)),
               result.figures.step.t_overlap, "t_ideal", result.figures.ideal());
    CostModel cost;
    cost.interconnect = LinkOf(*programs.comm, result_.link.latency_seconds);
    cost.table = TableOf(*programs.comp_sliced);
    result.slowdown = SlowdownOf(*programs.overlap, cost);
    const Simulands simulands{programs.overlap->program, programs.oracle->program,
                              programs.comm->program};
    ASSIGN_OR_RETURN(result.ceiling, SimulateFigures(simulands, cost));
    if (!options_.costs) return result;
    ASSIGN_OR_RETURN(const Figures predicted, SimulateFigures(simulands, ModelOf(*options_.costs)));
    result.t_simulated = predicted.step.t_overlap;
    return result;
  }

  const OverlapOptions& options_;
  Rig& rig_;
  const Say& say_;
  Comparison result_;
  std::deque<Measured> measured_;           // in the order of a round; a deque keeps addresses
  std::vector<std::string> texts_, names_;  // of them
};

}  // namespace

absl::StatusOr<Comparison> Compare(const OverlapOptions& options, Rig& rig, const Say& say) {
  const std::vector<std::string> known = ScheduleNames();
  for (const std::string& name : options.schedules) {
    if (absl::c_linear_search(known, name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--schedules: found '", name, "', expected some of ", absl::StrJoin(known, ", ")));
  }
  return Comparer(options, rig, say).Run();
}

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0

// Connects the ranks, makes an engine per program and runs single steps of it. On a real link each
// step begins with an all-reduce that drains the shaper's token bucket and a barrier, and its
// sample is that of the slowest rank, so all ranks have the same numbers. The link's latency and
// rate come from all-reduces of two sizes. Parity compares two steps with the serial oracle on
// every rank.

#include "worker/bench/overlap/rig.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/inputs.h"
#include "worker/bench/common/process_cpu.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/overlap/file_store.h"
#include "worker/comm/gloo/gloo_communicator.h"
#include "worker/engine/cost/median.h"

namespace stretto::bench {
namespace {

constexpr int64_t kSmallBytes = 128 << 10, kLargeBytes = 4 << 20;
constexpr int kLinkRepeats = 7;

TensorView Floats(std::vector<float>& values, int64_t bytes) {
  return {.data = values.data(), .dtype = DType::kF32, .shape = {bytes / 4, 1, 1, 1}, .rank = 1};
}

// In a ring of n ranks an all-reduce takes 2(n-1) steps and sends 2(n-1)/n of the bytes.
Link AsRing(const EmulatedLinkOptions& link) {
  const double steps = 2.0 * (link.size - 1);
  return {.latency_seconds = absl::ToDoubleSeconds(link.latency) / steps,
          .bytes_per_second = link.bytes_per_second * steps / link.size};
}

}  // namespace

void CpuMarks::Reset() {
  const MutexLock lock(mutex_);
  phase_ = Phase::kForward;
  since_ = ProcessCpuSeconds();
  forward_ = backward_ = 0;
}

void CpuMarks::Note(const Op& op) {
  const MutexLock lock(mutex_);
  const double now = ProcessCpuSeconds();
  if (phase_ == Phase::kForward) forward_ += now - since_;
  if (phase_ == Phase::kBackward || phase_ == Phase::kRecompute) backward_ += now - since_;
  since_ = now;
  phase_ = op.tag.phase;
}

absl::StatusOr<std::unique_ptr<Rig>> Rig::Create(const OverlapOptions& options, Machine& machine) {
  auto rig = std::unique_ptr<Rig>(new Rig(options, machine));
  RETURN_IF_ERROR(rig->Start());
  return rig;
}

absl::Status Rig::Start() {
  if (options_.emulated()) {
    RETURN_IF_ERROR(Emulate(options_.Links()[0]));
  } else if (options_.ranks > 1) {
    FileStore store(options_.rendezvous);
    ASSIGN_OR_RETURN(GlooNetwork network, OpenGlooNetwork(options_.address));
    ASSIGN_OR_RETURN(communicator_, GlooCommunicator::Connect({.rank = options_.rank,
                                                               .size = options_.ranks,
                                                               .store = &store,
                                                               .prefix = "overlap",
                                                               .network = std::move(network)}));
  }
  // Of all variants, the one without activations needs the least memory for the weights.
  ASSIGN_OR_RETURN(initial_, trainer::RankEngine::Create(
                                 options_.Unsliced(), Rank::Of(options_.rank),
                                 Variant::kCommunicationOnly, links(), *machine_.backend, {}));
  return initial_->Initialise(kSeed);
}

absl::Status Rig::Emulate(const EmulatedLinkOptions& link) {
  ASSIGN_OR_RETURN(auto device, machine_.emulate_link(link));
  devices_.push_back(std::move(device));
  emulated_ = link;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<trainer::RankEngine>> Rig::Make(const EngineSpec& spec,
                                                               Variant variant,
                                                               const Occupation& occupation,
                                                               OnBegin on_begin) {
  ASSIGN_OR_RETURN(RankPlan plan, BuildPlan(spec, Rank::Of(options_.rank), variant));
  if (occupation.calls > 0) RETURN_IF_ERROR(Occupy(occupation, &plan));
  ASSIGN_OR_RETURN(auto engine,
                   trainer::RankEngine::Create(spec, Rank::Of(options_.rank), std::move(plan),
                                               links(), *machine_.backend, std::move(on_begin)));
  RETURN_IF_ERROR(engine->CopyStateFrom(*initial_));
  FillInputs(spec, 1, *engine);
  return engine;
}

absl::Status Rig::Time(Measured* measured) {
  CpuMarks marks;
  OnBegin note;
  if (measured->variant == Variant::kCommunicationOnly && !options_.emulated()) {
    note = [&](OpId op, int64_t) { marks.Note(measured->program.ops[op]); };
  }
  ASSIGN_OR_RETURN(auto engine,
                   Make(measured->spec, measured->variant, measured->occupation, std::move(note)));
  if (measured->runs.empty()) measured->program = engine->program();
  for (int step = 0; step < options_.warm_up_steps + options_.steps; ++step) {
    ASSIGN_OR_RETURN(Run run, RunOnce(*measured, *engine, &marks));
    if (step >= options_.warm_up_steps) measured->runs.push_back(std::move(run));
  }
  const bool trains =
      measured->variant == Variant::kSchedule || measured->variant == Variant::kSerialOracle;
  if (!trains) return absl::OkStatus();
  const double loss = engine->MeanLoss(), norm = engine->clip_state()[kGradNorm];
  if (std::isfinite(loss) && std::isfinite(norm)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(measured->spec.schedule.name, ": found loss ", loss,
                                          " and gradient norm ", norm, ", expected finite ones"));
}

absl::StatusOr<Run> Rig::RunOnce(const Measured& measured, trainer::RankEngine& engine,
                                 CpuMarks* marks) {
  if (communicator_ != nullptr) {
    RETURN_IF_ERROR(DrainLink(*communicator_));
  }
  marks->Reset();
  const int64_t begin = NowNanoseconds();
  RETURN_IF_ERROR(engine.executor().Run());
  const absl::Span<const Interval> intervals = engine.executor().intervals();

  const StepTimes times = TimesOf(measured.program, intervals, begin);
  const auto sample = [](const PhaseTimes& phase) {
    return PhaseSample{.seconds = phase.seconds, .exposed_share = phase.exposed_share()};
  };
  Run run{.slowest = {sample(times.forward), sample(times.backward), sample(times.step),
                      sample(times.paired), times.optimizer},
          .intervals = {intervals.begin(), intervals.end()}};
  run.slowest.forward.cpu = marks->forward();
  run.slowest.backward.cpu = marks->backward();
  run.slowest.step.cpu = marks->forward() + marks->backward();
  RETURN_IF_ERROR(SlowestRank(&run.slowest));
  return run;
}

absl::Status Rig::SlowestRank(StepSample* sample) {
  if (communicator_ == nullptr) return absl::OkStatus();
  std::vector<double*> fields = {&sample->optimizer};
  for (PhaseSample* phase : {&sample->forward, &sample->backward, &sample->step, &sample->paired}) {
    fields.insert(fields.end(), {&phase->seconds, &phase->exposed_share, &phase->cpu});
  }
  std::vector<float> values;
  for (const double* field : fields) values.push_back(static_cast<float>(*field));
  RETURN_IF_ERROR(communicator_->Run(Collective::AllReduce(
      Floats(values, static_cast<int64_t>(values.size() * sizeof(float))), ReduceOp::kMax)));
  for (size_t i = 0; i < fields.size(); ++i) *fields[i] = values[i];
  return absl::OkStatus();
}

absl::StatusOr<std::vector<trainer::StepResult>> Rig::Steps(const EngineSpec& spec, Variant variant,
                                                            double* seconds) {
  ASSIGN_OR_RETURN(auto engine, Make(spec, variant));
  std::vector<trainer::StepResult> results;
  for (int step = 1; step <= trainer::kParitySteps; ++step) {
    FillInputs(spec, step, *engine);
    if (communicator_ != nullptr) RETURN_IF_ERROR(communicator_->Run(Collective::Barrier()));
    const int64_t begin = NowNanoseconds();
    RETURN_IF_ERROR(engine->executor().Run());
    const StepTimes times = TimesOf(engine->program(), engine->executor().intervals(), begin);
    *seconds = step == 1 ? times.step.seconds : std::min(*seconds, times.step.seconds);
    ASSIGN_OR_RETURN(results.emplace_back(), trainer::ResultOf(*engine));
  }
  return results;
}

absl::StatusOr<Parity> Rig::CheckParity(const EngineSpec& spec) {
  double unused = 0;
  Parity parity;
  ASSIGN_OR_RETURN(const std::vector<trainer::StepResult> oracle,
                   Steps(spec.Repeatable(), Variant::kSerialOracle, &unused));
  ASSIGN_OR_RETURN(const std::vector<trainer::StepResult> found,
                   Steps(spec.Repeatable(), Variant::kSchedule, &parity.seconds));
  std::vector<float> agreed = {trainer::SameBits(oracle, found) ? 0.0f : 1.0f,
                               static_cast<float>(parity.seconds)};
  if (communicator_ != nullptr) {
    RETURN_IF_ERROR(communicator_->Run(Collective::AllReduce(Floats(agreed, 8), ReduceOp::kMax)));
  }
  parity.passed = agreed[0] == 0;
  parity.seconds = agreed[1];
  parity.loss = found[0].loss;
  const char* verdict = parity.passed ? "bitwise equal to" : "different on a rank from";
  parity.message = absl::StrFormat(
      "%d steps %s the serial oracle: loss %.9g, gradient norm %.9g, oracle %.9g and %.9g",
      trainer::kParitySteps, verdict, found[0].loss, found[0].gradient_norm, oracle[0].loss,
      oracle[0].gradient_norm);
  return parity;
}

absl::StatusOr<Link> Rig::MeasureLink() {
  if (options_.emulated()) return AsRing(emulated_);
  if (communicator_ == nullptr) return Link{};
  std::vector<float> values(kLargeBytes / 4, 1.0f);
  const auto median = [&](int64_t bytes) -> absl::StatusOr<double> {
    std::vector<float> seconds;
    for (int i = 0; i < kLinkRepeats; ++i) {
      RETURN_IF_ERROR(DrainLink(*communicator_));
      const int64_t begin = NowNanoseconds();
      RETURN_IF_ERROR(
          communicator_->Run(Collective::AllReduce(Floats(values, bytes), ReduceOp::kMax)));
      seconds.push_back(static_cast<float>(NowNanoseconds() - begin) * 1e-9f);
    }
    // All ranks must compute the same result from the same number.
    RETURN_IF_ERROR(communicator_->Run(
        Collective::AllReduce(Floats(seconds, kLinkRepeats * 4), ReduceOp::kMax)));
    return MedianOf({seconds.begin(), seconds.end()});
  };
  ASSIGN_OR_RETURN(const double small, median(kSmallBytes));
  ASSIGN_OR_RETURN(const double large, median(kLargeBytes));
  // A ring of n ranks sends 2(n-1)/n of the bytes in 2(n-1) steps.
  const double n = options_.ranks, steps = 2 * (n - 1);
  Link link;
  link.bytes_per_second =
      steps / n * static_cast<double>(kLargeBytes - kSmallBytes) / std::max(large - small, 1e-9);
  link.latency_seconds = std::max(
      0.0, (small - steps / n * static_cast<double>(kSmallBytes) / link.bytes_per_second) / steps);
  return link;
}

}  // namespace stretto::bench

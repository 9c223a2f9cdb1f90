#include "tests/bench/overlap/rig.h"

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "proto/base/files.h"
#include "proto/base/random.h"
#include "proto/base/status_macros.h"
#include "tests/bench/overlap/file_store.h"
#include "worker/comm/gloo/gloo_communicator.h"

namespace stretto::bench {
namespace {

constexpr uint64_t kSeed = 1, kTokenSeed = 2;
constexpr int kParitySteps = 2;
// Eight buckets of the tbf that shapes the link (burst 256 kB): what it let through for free is
// gone.
constexpr int64_t kDrainBytes = 2 << 20;
constexpr int64_t kSmallBytes = 128 << 10, kLargeBytes = 4 << 20;
constexpr int kLinkRepeats = 7;

double ProcessCpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// The process's CPU time as backward and the optimizer begin.
class CpuMarks {
 public:
  void Note(const Op& op) {
    if (op.tag.phase == Phase::kForward) return;
    std::atomic<double>& mark = op.tag.phase == Phase::kOptimizer ? optimizer_ : backward_;
    if (mark.load() == 0) mark.store(ProcessCpuSeconds());
  }
  double backward() const { return backward_.load(); }
  double optimizer() const { return optimizer_.load(); }

 private:
  std::atomic<double> backward_{0}, optimizer_{0};
};

void FillInputs(const EngineSpec& spec, int step, trainer::RankEngine& engine) {
  const int64_t tokens = int64_t{spec.micro_batch_size} * spec.model.sequence_length;
  const auto token = [&](int64_t position) {
    return static_cast<int32_t>(
        Philox(kTokenSeed, static_cast<uint64_t>(position), static_cast<uint64_t>(step))[0] %
        static_cast<uint32_t>(spec.model.vocab_size));
  };
  for (int64_t i = 0; i < tokens; ++i) {
    engine.tokens(0)[i] = token(i);
    engine.targets(0)[i] = token(i + 1);
  }
  constexpr double beta1 = 0.9, beta2 = 0.95;
  float* scalars = engine.scalars();
  scalars[kLearningRate] = 1e-4f;
  scalars[kBeta1] = beta1;
  scalars[kBeta2] = beta2;
  scalars[kEpsilon] = 1e-8f;
  scalars[kWeightDecay] = 0.1f;
  scalars[kBiasCorrection1] = static_cast<float>(1 - std::pow(beta1, step));
  scalars[kBiasCorrection2] = static_cast<float>(1 - std::pow(beta2, step));
  scalars[kClipNorm] = 1.0f;
  scalars[kLossWeight] = 1.0f / static_cast<float>(tokens);
}

TensorView Floats(std::vector<float>& values, int64_t bytes) {
  return {.data = values.data(), .dtype = DType::kF32, .shape = {bytes / 4, 1, 1, 1}, .rank = 1};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Rig>> Rig::Create(const OverlapOptions& options) {
  auto rig = std::unique_ptr<Rig>(new Rig(options));
  RETURN_IF_ERROR(rig->Start());
  return rig;
}

absl::Status Rig::Start() {
  drain_.resize(static_cast<size_t>(kLargeBytes / 4), 1.0f);
  if (options_.ranks > 1) {
    FileStore store(options_.rendezvous);
    ASSIGN_OR_RETURN(communicator_, GlooCommunicator::Connect({.rank = options_.rank,
                                                               .size = options_.ranks,
                                                               .store = &store,
                                                               .prefix = "overlap",
                                                               .address = options_.address}));
  }
  // Of all programs the one without activations holds the weights in the least memory.
  ASSIGN_OR_RETURN(initial_, trainer::RankEngine::Create(
                                 options_.Unsliced(), options_.rank, Variant::kCommunicationOnly,
                                 {.host = communicator_.get()}, *backend_, {}));
  return initial_->Initialise(kSeed);
}

absl::StatusOr<std::unique_ptr<trainer::RankEngine>> Rig::Make(const EngineSpec& spec,
                                                               Variant variant, OnBegin on_begin) {
  ASSIGN_OR_RETURN(auto engine, trainer::RankEngine::Create(spec, options_.rank, variant,
                                                            {.host = communicator_.get()},
                                                            *backend_, std::move(on_begin)));
  RETURN_IF_ERROR(engine->CopyStateFrom(*initial_));
  FillInputs(spec, 1, *engine);
  return engine;
}

absl::Status Rig::Time(Measured* measured) {
  CpuMarks marks;
  OnBegin note;
  if (measured->variant == Variant::kCommunicationOnly) {
    note = [&](int op, int64_t) { marks.Note(measured->program.ops[static_cast<size_t>(op)]); };
  }
  ASSIGN_OR_RETURN(auto engine, Make(measured->spec, measured->variant, std::move(note)));
  if (measured->runs.empty()) measured->program = engine->program();

  if (communicator_ != nullptr) {
    RETURN_IF_ERROR(communicator_->AllReduce(Floats(drain_, kDrainBytes), ReduceOp::kMax));
    RETURN_IF_ERROR(communicator_->Barrier());
  }
  const double cpu = ProcessCpuSeconds();
  const int64_t begin = NowNanoseconds();
  RETURN_IF_ERROR(engine->executor().Run());
  const absl::Span<const Interval> intervals = engine->executor().intervals();

  const StepTimes times = TimesOf(measured->program, intervals, begin);
  const auto sample = [](const PhaseTimes& phase) {
    return PhaseSample{.seconds = phase.seconds, .exposed_share = phase.exposed_share()};
  };
  Run run{.slowest = {sample(times.forward), sample(times.backward), sample(times.step),
                      times.optimizer},
          .intervals = {intervals.begin(), intervals.end()}};
  if (marks.optimizer() > 0) {
    run.slowest.forward.cpu = marks.backward() - cpu;
    run.slowest.backward.cpu = marks.optimizer() - marks.backward();
    run.slowest.step.cpu = marks.optimizer() - cpu;
  }
  RETURN_IF_ERROR(SlowestRank(&run.slowest));
  measured->runs.push_back(std::move(run));
  return absl::OkStatus();
}

absl::Status Rig::SlowestRank(StepSample* sample) {
  if (communicator_ == nullptr) return absl::OkStatus();
  std::vector<double*> fields = {&sample->optimizer};
  for (PhaseSample* phase : {&sample->forward, &sample->backward, &sample->step}) {
    fields.insert(fields.end(), {&phase->seconds, &phase->exposed_share, &phase->cpu});
  }
  std::vector<float> values;
  for (const double* field : fields) values.push_back(static_cast<float>(*field));
  RETURN_IF_ERROR(communicator_->AllReduce(
      Floats(values, static_cast<int64_t>(values.size() * sizeof(float))), ReduceOp::kMax));
  for (size_t i = 0; i < fields.size(); ++i) *fields[i] = values[i];
  return absl::OkStatus();
}

// Loss, gradient norm and a checksum over every gradient, for each step.
absl::StatusOr<std::vector<double>> Rig::Fingerprint(const EngineSpec& spec, Variant variant,
                                                     double* seconds) {
  ASSIGN_OR_RETURN(auto engine, Make(spec, variant));
  std::vector<double> values;
  for (int step = 1; step <= kParitySteps; ++step) {
    FillInputs(spec, step, *engine);
    if (communicator_ != nullptr) RETURN_IF_ERROR(communicator_->Barrier());
    const int64_t begin = NowNanoseconds();
    RETURN_IF_ERROR(engine->executor().Run());
    const StepTimes times = TimesOf(engine->program(), engine->executor().intervals(), begin);
    *seconds = step == 1 ? times.step.seconds : std::min(*seconds, times.step.seconds);
    uint32_t crc = 0;
    for (size_t p = 0; p < engine->parameters().size(); ++p) {
      ASSIGN_OR_RETURN(const TensorView gradient, engine->Gradient(static_cast<int>(p)));
      crc = Crc32c({static_cast<const char*>(gradient.data), static_cast<size_t>(gradient.bytes())},
                   crc);
    }
    values.insert(values.end(),
                  {engine->MeanLoss(), engine->clip_state()[kGradNorm], static_cast<double>(crc)});
  }
  return values;
}

absl::StatusOr<Parity> Rig::CheckParity(const EngineSpec& spec) {
  double unused = 0;
  Parity parity;
  ASSIGN_OR_RETURN(const std::vector<double> oracle,
                   Fingerprint(spec, Variant::kSerialOracle, &unused));
  ASSIGN_OR_RETURN(const std::vector<double> found,
                   Fingerprint(spec, Variant::kSchedule, &parity.seconds));
  const bool finite =
      std::all_of(oracle.begin(), oracle.end(), [](double v) { return std::isfinite(v); });
  const bool trains = oracle[1] > 0;
  std::vector<float> agreed = {found == oracle && finite && trains ? 0.0f : 1.0f,
                               static_cast<float>(parity.seconds)};
  if (communicator_ != nullptr) {
    RETURN_IF_ERROR(communicator_->AllReduce(Floats(agreed, 8), ReduceOp::kMax));
  }
  parity.passed = agreed[0] == 0;
  parity.seconds = agreed[1];
  parity.loss = found[0];
  const char* verdict = parity.passed ? "bitwise equal to" : "different on a rank from";
  parity.message = absl::StrFormat(
      "%d steps %s the serial oracle: loss %.9g, gradient norm %.9g, oracle %.9g and %.9g",
      kParitySteps, verdict, found[0], found[1], oracle[0], oracle[1]);
  return parity;
}

absl::StatusOr<Link> Rig::MeasureLink() {
  if (communicator_ == nullptr) return Link{};
  const auto median = [&](int64_t bytes) -> absl::StatusOr<double> {
    std::vector<float> seconds;
    for (int i = 0; i < kLinkRepeats; ++i) {
      RETURN_IF_ERROR(communicator_->AllReduce(Floats(drain_, kDrainBytes), ReduceOp::kMax));
      RETURN_IF_ERROR(communicator_->Barrier());
      const int64_t begin = NowNanoseconds();
      RETURN_IF_ERROR(communicator_->AllReduce(Floats(drain_, bytes), ReduceOp::kMax));
      seconds.push_back(static_cast<float>(NowNanoseconds() - begin) * 1e-9f);
    }
    // The same number on every rank.
    RETURN_IF_ERROR(communicator_->AllReduce(Floats(seconds, kLinkRepeats * 4), ReduceOp::kMax));
    std::nth_element(seconds.begin(), seconds.begin() + kLinkRepeats / 2, seconds.end());
    return seconds[kLinkRepeats / 2];
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

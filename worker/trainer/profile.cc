// SPDX-License-Identifier: Apache-2.0

// Profiles a job: first two steps of the schedule and two of its serial oracle, then the times of
// the unsliced program's computations, of its collectives and of the oracle. Each has an engine of
// its own that lives only while it runs, because the memory of several would not fit.

#include "worker/trainer/profile.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/target.h"
#include "proto/base/spread.h"
#include "proto/base/status_macros.h"
#include "worker/data/mapping_faults.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/parity.h"
#include "worker/trainer/plan/arenas.h"
#include "worker/trainer/process/preemption.h"

namespace stretto::trainer {
namespace {

absl::Status SlowestRank(Communicator& control, float* values, int64_t count) {
  if (control.size() == 1) return absl::OkStatus();
  return control.Run(Collective::AllReduce(
      {.data = values, .dtype = DType::kF32, .shape = {count, 1, 1, 1}, .rank = 1},
      ReduceOp::kMax));
}

struct Measured {
  double seconds = 0;
  double comm_cpu_seconds = 0;
  double spread = 0;                      // of the repetitions, as Profile.spread
  std::optional<double> preempted_share;  // as in Profile
};

// Both know a share, or neither does, because they run on the same kernel.
std::optional<double> Larger(std::optional<double> a, std::optional<double> b) {
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  return std::max(*a, *b);
}

class Profiler {
 public:
  Profiler(const JobConfig& config, const Sampler& sampler, const GroupLinks& training,
           Communicator& control, Backend& backend)
      : config_(config),
        sampler_(sampler),
        training_(training),
        control_(control),
        backend_(backend) {}

  absl::StatusOr<v1alpha1::Profile> Run() {
    v1alpha1::Profile profile;
    RETURN_IF_ERROR(CheckParity(&profile));
    if (!profile.verified_parity()) return profile;
    const EngineSpec unsliced = Unsliced(config_.engine);
    ASSIGN_OR_RETURN(const Measured compute, Time(unsliced, Variant::kComputeOnly));
    ASSIGN_OR_RETURN(const Measured communication, Time(unsliced, Variant::kCommunicationOnly));
    ASSIGN_OR_RETURN(const Measured serial, Time(config_.engine, Variant::kSerialOracle));
    profile.set_t_comp(compute.seconds);
    profile.set_t_comm(communication.seconds);
    profile.set_t_serial(serial.seconds);
    profile.set_comm_cpu_seconds(communication.comm_cpu_seconds);
    profile.set_spread(std::max(compute.spread, communication.spread));
    if (const auto share = Larger(compute.preempted_share, communication.preempted_share))
      profile.set_preempted_share(*share);
    // No schedule can beat this: communication lanes use CPU time that computation would need, and
    // the step cannot end before its communication.
    profile.set_t_ideal_step(
        std::max(compute.seconds + communication.comm_cpu_seconds, communication.seconds));
    return profile;
  }

 private:
  absl::StatusOr<std::unique_ptr<RankEngine>> Make(const EngineSpec& spec, Variant variant) {
    // Memory that peers still map from the previous engine is not free yet.
    RETURN_IF_ERROR(control_.Run(Collective::Barrier()));
    ASSIGN_OR_RETURN(auto engine,
                     RankEngine::Create(spec, config_.rank, variant, training_, backend_, {}));
    RETURN_IF_ERROR(engine->Initialise(config_.seed));
    RETURN_IF_ERROR(FillStep(config_, sampler_, 0, 1, 0, *engine).status());
    return engine;
  }

  absl::StatusOr<std::vector<StepResult>> Steps(Variant variant) {
    ASSIGN_OR_RETURN(auto engine, Make(config_.engine.Repeatable(), variant));
    std::vector<StepResult> results;
    for (int step = 1; step <= kParitySteps; ++step) {
      const int64_t consumed = (step - 1) * config_.engine.sequences_per_step();
      RETURN_IF_ERROR(FillStep(config_, sampler_, consumed, step, step - 1, *engine).status());
      RETURN_IF_ERROR(engine->executor().Run());
      ASSIGN_OR_RETURN(results.emplace_back(), ResultOf(*engine));
    }
    return results;
  }

  absl::Status CheckParity(v1alpha1::Profile* profile) {
    ASSIGN_OR_RETURN(const std::vector<StepResult> oracle, Steps(Variant::kSerialOracle));
    ASSIGN_OR_RETURN(const std::vector<StepResult> scheduled, Steps(Variant::kSchedule));
    // Parity holds only if it holds on every rank.
    float failed = SameBits(oracle, scheduled) ? 0.0f : 1.0f;
    RETURN_IF_ERROR(SlowestRank(control_, &failed, 1));
    profile->set_verified_parity(failed == 0);
    profile->set_parity_message(
        failed == 0 ? absl::StrCat("losses, gradient norms and every gradient bitwise equal to the "
                                   "serial oracle over ",
                                   kParitySteps, " steps")
                    : absl::StrCat("rank ", config_.rank.value(), ": loss ", scheduled[0].loss,
                                   " and gradient norm ", scheduled[0].gradient_norm,
                                   " at step 1, serial oracle ", oracle[0].loss, " and ",
                                   oracle[0].gradient_norm));
    return absl::OkStatus();
  }

  absl::StatusOr<Measured> Time(const EngineSpec& spec, Variant variant) {
    ASSIGN_OR_RETURN(auto engine, Make(spec, variant));
    std::vector<double> seconds, cpu;
    PreemptionMeter meter;
    double lost = 0, total = 0;
    bool known = true;
    for (int step = 0; step <= config_.profile_steps; ++step) {
      // All ranks start together, so that none measures another's delay.
      RETURN_IF_ERROR(control_.Run(Collective::Barrier()));
      meter.Take();  // what was lost at the barrier
      const int64_t begin = NowNanoseconds();
      RETURN_IF_ERROR(engine->executor().Run());
      const int64_t end = NowNanoseconds();  // before the meter, which reads files
      const Preempted preempted = meter.Take();
      // Where one rank does not know what it lost, nobody knows.
      float values[4] = {static_cast<float>(end - begin) * 1e-9f,
                         static_cast<float>(engine->executor().communication_cpu_seconds()),
                         static_cast<float>(preempted.seconds.value_or(0)),
                         preempted.seconds.has_value() ? 0.0f : 1.0f};
      RETURN_IF_ERROR(SlowestRank(control_, values, 4));
      if (step == 0) continue;  // warm-up: caches, first touch of memory
      seconds.push_back(values[0]);
      cpu.push_back(values[1]);
      total += values[0];
      lost += values[2];
      known = known && values[3] == 0;
    }
    return Measured{
        .seconds = Median(seconds),
        .comm_cpu_seconds = Median(cpu),
        .spread = SpreadOf(seconds),
        .preempted_share = known && total > 0 ? std::optional<double>(lost / total) : std::nullopt};
  }

  const JobConfig& config_;
  const Sampler& sampler_;
  const GroupLinks& training_;
  Communicator& control_;
  Backend& backend_;
};

}  // namespace

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Kernels leave out what samplers mask.
static_assert(kMaskedTarget == kNoTarget);

absl::StatusOr<int64_t> FillStep(const JobConfig& config, const Sampler& sampler, int64_t consumed,
                                 int64_t step, int64_t updates, RankEngine& engine) {
  const EngineSpec& spec = config.engine;
  // Every rank counts the targets of all replicas, so that the weight of a loss is the same on all.
  ASSIGN_OR_RETURN(const int64_t targets,
                   sampler.CountTargets(consumed, spec.sequences_per_step()));
  const Place place = PlaceOf(spec, config.rank);
  const int64_t sequences = SequencesOf(spec, place.stage);
  for (int mb = 0; mb < spec.micro_batches; ++mb) {
    // The sequences of a step are dealt to the replicas of the stage in turn, a micro-batch each.
    const int64_t first = (int64_t{mb} * ReplicasOf(spec, place.stage) + place.replica) * sequences;
    RETURN_IF_ERROR(
        sampler.ReadBatch(consumed + first, sequences, engine.tokens(mb), engine.targets(mb)));
    sampler.FindDocuments(consumed + first, sequences, engine.documents(mb));
    int32_t* keys = engine.keys(mb);
    keys[kSeedLow] = static_cast<int32_t>(config.seed);
    keys[kSeedHigh] = static_cast<int32_t>(config.seed >> 32);
    keys[kStepNumber] = static_cast<int32_t>(step);
    keys[kFirstToken] = static_cast<int32_t>(first * spec.model.sequence_length);
  }
  const OptimizerConfig& o = config.optimizer;
  // Adam's bias correction counts updates, not steps: a skipped update leaves the moments
  // unchanged.
  const double t = static_cast<double>(updates + 1);
  float* scalars = engine.scalars();
  scalars[kLearningRate] = static_cast<float>(o.LearningRateAt(step));
  scalars[kBeta1] = static_cast<float>(o.beta1);
  scalars[kBeta2] = static_cast<float>(o.beta2);
  scalars[kEpsilon] = static_cast<float>(o.epsilon);
  scalars[kWeightDecay] = static_cast<float>(o.weight_decay);
  scalars[kBiasCorrection1] = static_cast<float>(1 - std::pow(o.beta1, t));
  scalars[kBiasCorrection2] = static_cast<float>(1 - std::pow(o.beta2, t));
  scalars[kClipNorm] = static_cast<float>(o.clip_norm);
  scalars[kLossWeight] =
      static_cast<float>(1.0 / static_cast<double>(std::max<int64_t>(1, targets)));
  RETURN_IF_ERROR(MappingFault());  // of a thread that has read what is not of this batch, too
  return targets;
}

absl::StatusOr<v1alpha1::Profile> MeasureProfile(const JobConfig& config, const Sampler& sampler,
                                                 const GroupLinks& training, Communicator& control,
                                                 Backend& backend) {
  return Profiler(config, sampler, training, control, backend).Run();
}

absl::Status ProfileAndReport(const JobConfig& config, const Sampler& sampler,
                              const GroupLinks& training, Communicator& control, Backend& backend,
                              Reporter& reporter) {
  ASSIGN_OR_RETURN(const v1alpha1::Profile profile,
                   MeasureProfile(config, sampler, training, control, backend));
  spdlog::info("profile t_comp {:.4f} t_comm {:.4f} t_ideal_step {:.4f} parity: {}",
               profile.t_comp(), profile.t_comm(), profile.t_ideal_step(),
               profile.parity_message());
  if (!profile.verified_parity())
    return absl::InternalError(absl::StrCat("parity failed: ", profile.parity_message()));
  if (config.rank != 0) return absl::OkStatus();
  v1alpha1::RankReport report;
  *report.mutable_profile() = profile;
  reporter.Send(std::move(report));
  return absl::OkStatus();
}

}  // namespace stretto::trainer

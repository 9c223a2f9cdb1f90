// SPDX-License-Identifier: Apache-2.0

// Trains on random tokens: a number of warm-up steps, then counted steps for the requested time. A
// step begins with drawing its batch. The ledgers of the counted steps are averaged.

#include "worker/bench/step/measure.h"

#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/inputs.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/memory_check.h"

namespace stretto::bench {
namespace {

constexpr int kLeastSteps = 3;

// Sums of ledgers by part, group and phase.
class LedgerSum {
 public:
  void Add(const StepLedger& ledger) {
    for (const LedgerEntry& entry : ledger.entries) {
      seconds_[{entry.part, entry.group, entry.phase}] += entry.seconds;
    }
    sum_.seconds += ledger.seconds;
    sum_.communication_seconds += ledger.communication_seconds;
    sum_.hidden_seconds += ledger.hidden_seconds;
  }

  StepLedger MeanOf(double steps) const {
    StepLedger mean;
    for (const auto& [key, seconds] : seconds_) {
      const auto& [part, group, phase] = key;
      mean.entries.push_back({part, group, phase, seconds / steps});
    }
    mean.seconds = sum_.seconds / steps;
    mean.communication_seconds = sum_.communication_seconds / steps;
    mean.hidden_seconds = sum_.hidden_seconds / steps;
    return mean;
  }

 private:
  std::map<std::tuple<LedgerPart, std::string, std::string>, double> seconds_;
  StepLedger sum_;
};

absl::StatusOr<std::unique_ptr<DeviceCommunicator>> LinkOf(const StepOptions& options,
                                                           const Machine& machine) {
  if (options.spec.tp_size == 1) return nullptr;
  if (machine.emulate_link) return machine.emulate_link(options.link);
  return absl::InvalidArgumentError(absl::StrCat("--tp: found ", options.spec.tp_size,
                                                 ", expected 1: --device ", machine.device,
                                                 " has no link to emulate"));
}

// Runs steps on one engine.
class Trainer {
 public:
  Trainer(const EngineSpec& spec, trainer::RankEngine& engine) : spec_(spec), engine_(engine) {}

  absl::Status Step(StepMeasurement* measured, LedgerSum* ledger) {
    const int64_t begin = NowNanoseconds();
    FillInputs(spec_, ++step_, engine_);
    const int64_t filled = NowNanoseconds();
    RETURN_IF_ERROR(engine_.executor().Run());
    const double loss = engine_.MeanLoss(), norm = engine_.clip_state()[kGradNorm];
    const int64_t end = NowNanoseconds();
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      return absl::InternalError(absl::StrCat("step ", step_, ": found loss ", loss,
                                              " and gradient norm ", norm,
                                              ", expected finite ones"));
    }
    if (step_ == 1) measured->loss_first = loss;
    measured->loss_last = loss;
    measured->last_seconds = static_cast<double>(end - begin) * 1e-9;
    if (ledger == nullptr) return absl::OkStatus();
    measured->step_seconds.push_back(measured->last_seconds);
    measured->seconds += measured->last_seconds;
    ledger->Add(ComputeLedger(engine_.program(), engine_.executor().intervals(),
                              {.data = {{begin, filled}}, .checkpoint = {}}, {begin, end}));
    measured->ledger = ledger->MeanOf(static_cast<double>(measured->step_seconds.size()));
    return absl::OkStatus();
  }

 private:
  const EngineSpec& spec_;
  trainer::RankEngine& engine_;
  int step_ = 0;
};

}  // namespace

double StepMeasurement::tokens_per_second(const StepOptions& options) const {
  return static_cast<double>(options.tokens_per_step()) * static_cast<double>(step_seconds.size()) /
         seconds;
}

absl::StatusOr<StepMeasurement> MeasureStep(const StepOptions& options, const Machine& machine,
                                            const OnStep& on_step) {
  const EngineSpec& spec = options.spec;
  ASSIGN_OR_RETURN(const auto link, LinkOf(options, machine));
  StepMeasurement measured;
  ASSIGN_OR_RETURN(const RankPlan plan, BuildPlan(spec, Rank::Of(options.rank)));
  measured.memory_bytes = std::accumulate(plan.arenas.begin(), plan.arenas.end(), int64_t{0});
  ASSIGN_OR_RETURN(const int64_t available, machine.backend->FreeMemory());
  RETURN_IF_ERROR(trainer::CheckMemory({{Rank::Of(options.rank), plan.arenas}},
                                       /*on_gpu=*/machine.device != "cpu", available));
  ASSIGN_OR_RETURN(const auto engine,
                   trainer::RankEngine::Create(spec, Rank::Of(options.rank), Variant::kSchedule,
                                               {{.device = link.get()}}, *machine.backend, {}));
  RETURN_IF_ERROR(engine->Initialise(kSeed));

  Trainer trainer(spec, *engine);
  const int64_t begin = NowNanoseconds();
  const auto spent = [&](int64_t since) {
    return static_cast<double>(NowNanoseconds() - since) * 1e-9;
  };
  while (measured.warm_up_steps < kLeastSteps || spent(begin) < options.warm_up_seconds) {
    RETURN_IF_ERROR(trainer.Step(&measured, nullptr));
    ++measured.warm_up_steps;
    RETURN_IF_ERROR(on_step(measured));
  }
  LedgerSum ledger;
  while (measured.step_seconds.size() < kLeastSteps || measured.seconds < options.seconds) {
    RETURN_IF_ERROR(trainer.Step(&measured, &ledger));
    RETURN_IF_ERROR(on_step(measured));
  }
  return measured;
}

}  // namespace stretto::bench

// One function per section of the spec. Each adds its violations and continues, so that a user sees
// all of them at once; a rule that needs a field which is already refused is left out.

#include "coordinator/service/validate_spec.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/service/spec_checks.h"
#include "coordinator/service/validate_request.h"

namespace stretto::service {
namespace {

using v1alpha1::JobSpec;

constexpr int64_t kMaxSteps = 1'000'000'000;
constexpr int64_t kMaxTokensPerStep = int64_t{1} << 31;

// "KIND:PATH" with one of the kinds.
void CheckWeights(absl::string_view field, absl::string_view found,
                  const std::vector<absl::string_view>& kinds, Violations* violations) {
  const std::pair<absl::string_view, absl::string_view> name =
      absl::StrSplit(found, absl::MaxSplits(':', 1));
  if (!violations->Expect(std::find(kinds.begin(), kinds.end(), name.first) != kinds.end(), field,
                          Quoted(found),
                          absl::StrCat(absl::StrJoin(kinds, ": or "), ": and a path"))) {
    return;
  }
  const std::string fault = PathFault(name.second);
  violations->Expect(fault.empty(), field, Quoted(found),
                     absl::StrCat(fault, " beneath the worker's data root"));
}

void CheckSteps(const JobSpec& spec, Violations* violations) {
  if (spec.steps() != 0 || spec.model().initial_weights().empty()) {
    violations->InRange("spec.steps", spec.steps(), 1, kMaxSteps);
    return;
  }
  // Weights as a checkpoint, and nothing else.
  violations->Expect(!spec.checkpoint().disabled(), "spec.steps", 0,
                     "at least 1, because checkpoints are disabled");
  violations->Expect(spec.checkpoint().resume_from().empty(), "spec.steps", 0,
                     "at least 1, because checkpoint.resume_from goes on from other weights");
  violations->Expect(!spec.has_eval(), "spec.steps", 0,
                     "at least 1, because eval measures after steps");
}

void CheckBatch(const JobSpec& spec, Violations* violations) {
  CheckSteps(spec, violations);
  const int micro = spec.micro_batch_size(), global = spec.global_batch_size();
  if (!violations->InRange("spec.micro_batch_size", micro, 1, kMaxBatch)) return;
  const char* field = "spec.global_batch_size";
  if (!violations->InRange(field, global, 1, kMaxBatch)) return;
  if (!violations->Expect(global % micro == 0, field, global,
                          absl::StrCat("a multiple of micro_batch_size ", micro))) {
    return;
  }
  const int64_t tokens = int64_t{global} * std::max(spec.model().sequence_length(), 0);
  violations->Expect(tokens <= kMaxTokensPerStep, field, absl::StrCat(tokens, " tokens per step"),
                     absl::StrCat("at most ", kMaxTokensPerStep));
}

void CheckOptimizer(const v1alpha1::OptimizerSpec& optimizer, Violations* violations) {
  const std::string prefix = "spec.optimizer.";
  violations->Expect(optimizer.name() == "adamw", prefix + "name", Quoted(optimizer.name()),
                     "adamw");
  const double rate = optimizer.learning_rate(), least = optimizer.min_learning_rate();
  if (violations->Number(prefix + "learning_rate", rate, rate > 0 && rate <= 1e3,
                         "a number above 0, at most 1000")) {
    violations->Number(prefix + "min_learning_rate", least, least >= 0 && least <= rate,
                       absl::StrCat("a number from 0 to learning_rate ", rate));
  }
  const auto number = [&](const char* name, double found, bool ok, absl::string_view expected) {
    violations->Number(prefix + name, found, ok, expected);
  };
  const double beta1 = optimizer.beta1(), beta2 = optimizer.beta2();
  number("beta1", beta1, beta1 >= 0 && beta1 < 1, "a number from 0 to below 1");
  number("beta2", beta2, beta2 >= 0 && beta2 < 1, "a number from 0 to below 1");
  number("epsilon", optimizer.epsilon(), optimizer.epsilon() > 0 && optimizer.epsilon() <= 1,
         "a number above 0, at most 1");
  number("weight_decay", optimizer.weight_decay(),
         optimizer.weight_decay() >= 0 && optimizer.weight_decay() <= 1e3,
         "a number from 0 to 1000");
  number("clip_norm", optimizer.clip_norm(),
         optimizer.clip_norm() >= 0 && optimizer.clip_norm() <= 1e9,
         "0 (no clipping) or a number up to 1e9");
  if (violations->InRange(prefix + "decay_steps", optimizer.decay_steps(), 1, kMaxSteps)) {
    violations->Expect(
        optimizer.warmup_steps() >= 0 && optimizer.warmup_steps() <= optimizer.decay_steps(),
        prefix + "warmup_steps", optimizer.warmup_steps(),
        absl::StrCat("a number from 0 to decay_steps ", optimizer.decay_steps()));
  }
  violations->InRange(prefix + "max_skipped_updates", optimizer.max_skipped_updates(), 1,
                      1'000'000);
}

void CheckCheckpoint(const v1alpha1::CheckpointSpec& checkpoint, Violations* violations) {
  const std::string prefix = "spec.checkpoint.";
  violations->InRange(prefix + "interval_steps", checkpoint.interval_steps(), 0, kMaxSteps);
  violations->InRange(prefix + "keep", checkpoint.keep(), 0, 1'000'000);
  if (checkpoint.disabled()) {
    violations->Expect(checkpoint.interval_steps() == 0, prefix + "interval_steps",
                       checkpoint.interval_steps(), "0, because checkpoints are disabled");
  }
  if (checkpoint.resume_from().empty()) return;
  if (absl::StartsWith(checkpoint.resume_from(), "hf:")) {
    CheckWeights(prefix + "resume_from", checkpoint.resume_from(), {"hf"}, violations);
    return;
  }
  const std::string fault = PathFault(checkpoint.resume_from());
  violations->Expect(fault.empty(), prefix + "resume_from", Quoted(checkpoint.resume_from()),
                     fault);
}

void CheckPrecision(const JobSpec& spec, Violations* violations) {
  const v1alpha1::Precision precision = spec.precision(), wire = spec.parallelism().wire();
  const auto known = [&](v1alpha1::Precision p) {
    return p == v1alpha1::PRECISION_F32 || p == v1alpha1::PRECISION_BF16;
  };
  constexpr char kKnown[] = "PRECISION_F32 or PRECISION_BF16";
  if (!violations->Expect(known(precision), "spec.precision", static_cast<int>(precision),
                          kKnown) ||
      !violations->Expect(known(wire), "spec.parallelism.wire", static_cast<int>(wire), kKnown)) {
    return;
  }
  violations->Expect(wire == v1alpha1::PRECISION_BF16 || precision == v1alpha1::PRECISION_F32,
                     "spec.parallelism.wire", "PRECISION_F32",
                     "PRECISION_BF16: activations travel no wider than precision");
}

void CheckNotTrainedOn(const std::string& prefix, const v1alpha1::DataSpec& data,
                       Violations* violations) {
  const auto check = [&](const std::string& trained_on, const std::string& field) {
    violations->Expect(prefix != trained_on, "spec.eval.prefix", Quoted(prefix),
                       absl::StrCat("other data than ", field, ", which is trained on"));
  };
  check(data.prefix(), "data.prefix");
  for (int i = 0; i < data.blend_size(); ++i) {
    check(data.blend(i).prefix(), absl::StrCat("data.blend[", i, "].prefix"));
  }
}

void CheckEval(const JobSpec& spec, Violations* violations) {
  if (!spec.has_eval()) return;
  const v1alpha1::EvalSpec& eval = spec.eval();
  violations->InRange("spec.eval.interval_steps", eval.interval_steps(), 1, kMaxSteps);
  violations->InRange("spec.eval.batches", eval.batches(), 1, 1'000'000);
  if (!eval.prefix().empty()) {
    CheckDataPrefix("spec.eval.prefix", eval.prefix(), violations);
    CheckNotTrainedOn(eval.prefix(), spec.data(), violations);
  } else {
    violations->Expect(spec.data().held_out() > 0, "spec.eval.prefix", Quoted(""),
                       "a data set, because data.held_out is 0");
  }
  if (!eval.has_early_stop()) return;
  const v1alpha1::EarlyStop& rule = eval.early_stop();
  violations->InRange("spec.eval.early_stop.patience", rule.patience(), 1, 1'000'000);
  violations->Number("spec.eval.early_stop.min_improvement", rule.min_improvement(),
                     rule.min_improvement() >= 0, "0 or more");
}

void CheckRest(const JobSpec& spec, Violations* violations) {
  CheckData(spec.data(), violations);
  if (!spec.model().initial_weights().empty()) {
    CheckWeights("spec.model.initial_weights", spec.model().initial_weights(), {"hf", "llmc"},
                 violations);
  }
  CheckEval(spec, violations);
  CheckPrecision(spec, violations);
  violations->InRange("spec.profile.steps", spec.profile().steps(), 0, 1000);
}

}  // namespace

absl::Status ValidateSpec(const JobSpec& normalized) {
  Violations violations;
  CheckModel(normalized.model(), &violations);
  CheckParallelism(normalized, &violations);
  CheckBatch(normalized, &violations);
  CheckSchedule(normalized, &violations);
  CheckOptimizer(normalized.optimizer(), &violations);
  CheckCheckpoint(normalized.checkpoint(), &violations);
  CheckRest(normalized, &violations);
  CheckDevice(normalized, &violations);
  return violations.status();
}

}  // namespace stretto::service

#include "coordinator/service/validate_spec.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/presets.h"

namespace stretto::service {
namespace {

using v1alpha1::JobSpec;

constexpr int kMaxLayers = 256;
constexpr int kMaxHidden = 65536;
constexpr int kMaxFfnHidden = 1 << 20;
constexpr int kMaxSequence = 1 << 20;
constexpr int kMaxVocabulary = 1 << 22;
constexpr int kMaxBatch = 1 << 16;
constexpr int kMaxTpSize = 1024;
constexpr int64_t kMaxSteps = 1'000'000'000;
constexpr int64_t kMaxParameters = 1'000'000'000'000;
constexpr int64_t kMaxTokensPerStep = int64_t{1} << 31;
constexpr size_t kMaxPath = 1024;

// Collects what is wrong; each method returns whether its check passed.
class Violations {
 public:
  bool Require(bool ok, absl::string_view field, absl::string_view description) {
    if (!ok) list_.push_back({std::string(field), std::string(description)});
    return ok;
  }
  template <class T>
  bool Expect(bool ok, absl::string_view field, const T& found, absl::string_view expected) {
    return ok || Require(false, field, absl::StrCat("found ", found, ", expected ", expected));
  }
  bool InRange(absl::string_view field, int64_t found, int64_t low, int64_t high) {
    return Expect(found >= low && found <= high, field, found,
                  absl::StrCat("a number from ", low, " to ", high));
  }
  // Also false for NaN.
  bool Number(absl::string_view field, double found, bool ok, absl::string_view expected) {
    return Expect(std::isfinite(found), field, found, "a finite number") &&
           Expect(ok, field, found, expected);
  }
  absl::Status status() const { return list_.empty() ? absl::OkStatus() : FieldErrors(list_); }

 private:
  std::vector<FieldViolation> list_;
};

// Why a path from a user may not be joined to a root; empty when it may.
std::string PathFault(absl::string_view path) {
  if (path.empty()) return "a path";
  if (path.size() > kMaxPath) return absl::StrCat("at most ", kMaxPath, " characters");
  for (unsigned char c : path) {
    if (c < 0x20 || c == 0x7f) return "no control characters";
  }
  if (path[0] == '/') return "a relative path";
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part == "..") return "no '..'";
    if (part == "." || part.empty()) return "no empty or '.' component";
  }
  return "";
}

std::string PresetNames() {
  return absl::StrJoin(kModelPresets, ", ", [](std::string* out, const ModelPreset& preset) {
    out->append(preset.name);
  });
}

void CheckAgainstPreset(const v1alpha1::ModelSpec& model, Violations* violations) {
  const ModelPreset* preset = FindPreset(model.preset().c_str());
  if (!violations->Expect(preset != nullptr, "spec.model.preset", Quoted(model.preset()),
                          absl::StrCat("one of ", PresetNames(), ", or dimensions"))) {
    return;
  }
  const auto same = [&](const char* field, int found, int expected) {
    violations->Expect(found == expected, absl::StrCat("spec.model.", field), found,
                       absl::StrCat("nothing, because preset ", preset->name, " sets ", expected,
                                    " (a preset or dimensions, not both)"));
  };
  same("layers", model.layers(), preset->layers);
  same("hidden", model.hidden(), preset->hidden);
  same("heads", model.heads(), preset->heads);
  same("ffn_hidden", model.ffn_hidden(), preset->ffn_hidden);
  same("vocab_size", model.vocab_size(), preset->vocab_size);
}

void CheckModel(const v1alpha1::ModelSpec& model, Violations* violations) {
  if (!model.preset().empty()) {
    CheckAgainstPreset(model, violations);
    if (FindPreset(model.preset().c_str()) == nullptr) return;
  } else if (model.layers() == 0 && model.hidden() == 0 && model.heads() == 0) {
    violations->Require(false, "spec.model",
                        absl::StrCat("found neither preset nor dimensions, expected a preset (",
                                     PresetNames(), ") or layers, hidden, heads, ..."));
    return;
  }
  bool ok = violations->InRange("spec.model.layers", model.layers(), 1, kMaxLayers);
  ok &= violations->InRange("spec.model.hidden", model.hidden(), 1, kMaxHidden);
  ok &= violations->InRange("spec.model.heads", model.heads(), 1, kMaxHidden);
  ok &= violations->InRange("spec.model.ffn_hidden", model.ffn_hidden(), 1, kMaxFfnHidden);
  ok &= violations->InRange("spec.model.sequence_length", model.sequence_length(), 1, kMaxSequence);
  ok &= violations->InRange("spec.model.vocab_size", model.vocab_size(), 1, kMaxVocabulary);
  if (!ok) return;
  violations->Expect(model.hidden() % model.heads() == 0, "spec.model.heads", model.heads(),
                     absl::StrCat("a divisor of hidden ", model.hidden()));
  const int64_t hidden = model.hidden();
  const int64_t parameters =
      model.layers() * (4 * hidden * hidden + 2 * hidden * model.ffn_hidden()) +
      (model.sequence_length() + PaddedVocabulary(model.vocab_size())) * hidden;
  violations->Expect(parameters <= kMaxParameters, "spec.model",
                     absl::StrCat("about ", parameters, " parameters"),
                     absl::StrCat("at most ", kMaxParameters));
}

void CheckParallelism(const JobSpec& spec, Violations* violations) {
  const auto& sizes = spec.parallelism();
  const auto only_one = [&](const char* name, int found) {
    const std::string field = absl::StrCat("spec.parallelism.", name);
    if (!violations->Expect(found >= 1, field, found, "1")) return;
    violations->Expect(found == 1, field, found,
                       absl::StrCat("1: ", name, " above 1 is not implemented yet"));
  };
  only_one("pp_size", sizes.pp_size());
  only_one("dp_size", sizes.dp_size());
  only_one("ep_size", sizes.ep_size());
  only_one("cp_size", sizes.cp_size());
  const int tp = sizes.tp_size();
  const char* field = "spec.parallelism.tp_size";
  if (!violations->InRange(field, tp, 1, kMaxTpSize)) return;
  const auto divides = [&](const char* name, int total) {
    if (total < 1) return;  // refused where the model is checked
    violations->Expect(total % tp == 0, field, tp, absl::StrCat("a divisor of ", name, " ", total));
  };
  divides("heads", spec.model().heads());
  divides("ffn_hidden", spec.model().ffn_hidden());
  if (spec.model().vocab_size() <= kMaxVocabulary) {
    divides("the padded vocabulary", PaddedVocabulary(spec.model().vocab_size()));
  }
}

void CheckBatch(const JobSpec& spec, Violations* violations) {
  violations->InRange("spec.steps", spec.steps(), 1, kMaxSteps);
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

void CheckDominoRow(const JobSpec& spec, Violations* violations) {
  const auto& parameters = spec.schedule().parameters();
  const int micro = spec.micro_batch_size(), slices = parameters.slices();
  const std::string prefix = "spec.schedule.parameters.";
  if (micro < 1 || micro > kMaxBatch) return;  // refused where the batch is checked
  if (!violations->Require(micro > 1, "spec.micro_batch_size",
                           "domino_row: found micro_batch_size 1, expected at least 2: a batch of "
                           "one cannot be cut into slices")) {
    return;
  }
  if (!violations->Require(
          slices >= 1, prefix + "slices",
          absl::StrCat("domino_row: found slices ", slices, ", expected at least 1")) ||
      !violations->Require(slices <= micro, prefix + "slices",
                           absl::StrCat("domino_row: found slices ", slices,
                                        ", expected at most micro_batch_size ", micro))) {
    return;
  }
  const auto& slice_sizes = parameters.slice_sizes();
  if (!violations->Require(slice_sizes.size() == slices, prefix + "slice_sizes",
                           absl::StrCat("domino_row: found ", slice_sizes.size(),
                                        " sizes, expected as many as slices ", slices))) {
    return;
  }
  int64_t sum = 0;
  for (int size : slice_sizes) {
    if (!violations->Require(size >= 1, prefix + "slice_sizes",
                             absl::StrCat("domino_row: found a slice of ", size,
                                          " sequences, expected at least 1"))) {
      return;
    }
    sum += size;
  }
  violations->Require(sum == micro, prefix + "slice_sizes",
                      absl::StrCat("domino_row: found sizes that sum to ", sum,
                                   ", expected micro_batch_size ", micro));
}

void CheckSchedule(const JobSpec& spec, Violations* violations) {
  const auto& schedule = spec.schedule();
  if (schedule.name() == "domino_row") return CheckDominoRow(spec, violations);
  if (!violations->Expect(schedule.name() == "megatron_sync", "spec.schedule.name",
                          Quoted(schedule.name()), "one of megatron_sync, domino_row")) {
    return;
  }
  const auto& parameters = schedule.parameters();
  violations->Require(parameters.slices() == 0, "spec.schedule.parameters.slices",
                      absl::StrCat("megatron_sync: found slices ", parameters.slices(),
                                   ", expected no parameters"));
  violations->Require(parameters.slice_sizes_size() == 0, "spec.schedule.parameters.slice_sizes",
                      absl::StrCat("megatron_sync: found ", parameters.slice_sizes_size(),
                                   " slice sizes, expected no parameters"));
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
  const std::string fault = PathFault(checkpoint.resume_from());
  violations->Expect(fault.empty(), prefix + "resume_from", Quoted(checkpoint.resume_from()),
                     fault);
}

void CheckRest(const JobSpec& spec, Violations* violations) {
  const std::string fault = PathFault(spec.data().prefix());
  violations->Expect(fault.empty(), "spec.data.prefix", Quoted(spec.data().prefix()),
                     absl::StrCat(fault, fault == "a path" ? "" : " in a path",
                                  " beneath the worker's data root"));
  violations->Expect(
      spec.precision() == v1alpha1::PRECISION_F32 || spec.precision() == v1alpha1::PRECISION_BF16,
      "spec.precision", static_cast<int>(spec.precision()), "PRECISION_F32 or PRECISION_BF16");
  violations->Require(spec.device() != v1alpha1::DEVICE_CUDA, "spec.device",
                      "found DEVICE_CUDA, expected DEVICE_CPU: cuda is not implemented yet");
  if (spec.device() != v1alpha1::DEVICE_CUDA) {
    violations->Expect(spec.device() == v1alpha1::DEVICE_CPU, "spec.device",
                       static_cast<int>(spec.device()), "DEVICE_CPU");
  }
  if (spec.has_emulated_link()) {
    const double rate = spec.emulated_link().gigabits_per_second();
    const double latency = spec.emulated_link().latency_microseconds();
    violations->Number("spec.emulated_link.gigabits_per_second", rate, rate > 0 && rate <= 1e6,
                       "a number above 0, at most 1e6");
    violations->Number("spec.emulated_link.latency_microseconds", latency,
                       latency >= 0 && latency <= 1e7, "a number from 0 to 1e7");
  }
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
  return violations.status();
}

}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0

// Rules between batches, steps, the optimizer, checkpoints and types.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/ids.h"
#include "proto/spec/job/normalize.h"
#include "proto/spec/job/rules.h"

namespace stretto::spec {
namespace {

using v1alpha1::JobSpec;

constexpr int64_t kMaxTokensPerStep = int64_t{1} << 31;
constexpr int kMaxPrompts = 8;
constexpr size_t kMaxPromptBytes = 2048;

// Steps beside another length are what it comes to. Only a worker can tell how many an epoch has.
void CheckLength(const JobSpec& spec, Violations* violations) {
  if (!violations->Sound({"steps", "tokens", "epochs"})) return;
  if (!violations->Expect(spec.tokens() == 0 || spec.epochs() == 0, "epochs", spec.epochs(),
                          "nothing, because tokens gives the length") ||
      !violations->Sound({"global_batch_size", "model.sequence_length"})) {
    return;
  }
  const int64_t steps = StepsOfTokens(spec);
  violations->Expect(
      steps == 0 || spec.steps() == steps, "steps", spec.steps(),
      absl::StrCat(steps, ", which consume ", spec.tokens(), " tokens; leave out steps or tokens"));
  violations->Expect(
      spec.epochs() == 0 || spec.steps() > 0, "epochs", spec.epochs(),
      "a worker that is connected and counts the steps of an epoch; or give steps or tokens");
}

// 0 steps only write the initial weights as a checkpoint.
void CheckSteps(const JobSpec& spec, Violations* violations) {
  CheckLength(spec, violations);
  if (spec.steps() != 0 || !violations->Sound({"steps", "tokens", "epochs"})) return;
  const auto expect = [&](bool ok, absl::string_view why) {
    return violations->Expect(ok, "steps", 0, absl::StrCat("at least 1, because ", why));
  };
  if (!expect(!spec.model().initial_weights().empty(),
              "model.initial_weights gives no weights to write as a checkpoint")) {
    return;
  }
  expect(!spec.checkpoint().disabled(), "checkpoints are disabled");
  expect(spec.checkpoint().resume_from().empty(),
         "checkpoint.resume_from continues from other weights");
  expect(!spec.has_eval(), "eval measures after steps");
}

// The steps of a decay that is left open are those of the checkpoint, under the same warm-up.
void CheckOptimizer(const v1alpha1::OptimizerSpec& optimizer, Violations* violations) {
  const char* least = "optimizer.min_learning_rate";
  if (violations->Sound({least, "optimizer.learning_rate"})) {
    violations->Expect(optimizer.min_learning_rate() <= optimizer.learning_rate(), least,
                       optimizer.min_learning_rate(),
                       absl::StrCat("at most learning_rate ", optimizer.learning_rate()));
  }
  const char* warmup = "optimizer.warmup_steps";
  if (optimizer.has_decay_steps() && violations->Sound({warmup, "optimizer.decay_steps"})) {
    violations->Expect(optimizer.warmup_steps() <= optimizer.decay_steps(), warmup,
                       optimizer.warmup_steps(),
                       absl::StrCat("at most decay_steps ", optimizer.decay_steps()));
  }
}

void CheckCheckpoint(const v1alpha1::CheckpointSpec& checkpoint, Violations* violations) {
  const char* interval = "checkpoint.interval_steps";
  if (checkpoint.disabled() && violations->Sound({interval})) {
    violations->Expect(checkpoint.interval_steps() == 0, interval, checkpoint.interval_steps(),
                       "0, because checkpoints are disabled");
  }
  violations->Expect(!checkpoint.disabled() || !checkpoint.asynchronous(),
                     "checkpoint.asynchronous", "true", "false, because checkpoints are disabled");
  const std::string& resume = checkpoint.resume_from();
  if (resume.empty()) return;
  if (absl::StartsWith(resume, "hf:")) {
    return CheckWeights("checkpoint.resume_from", resume, {"hf"}, violations);
  }
  const size_t at = resume.rfind('@');
  const std::string fault = PathFault(resume.substr(0, at));
  if (!violations->Expect(fault.empty(), "checkpoint.resume_from", Quoted(resume), fault)) return;
  violations->Expect(at == std::string::npos || IsValidName(resume.substr(at + 1)),
                     "checkpoint.resume_from", Quoted(resume), "the name of a project after '@'");
}

// Checkpoints are compared by the losses of their own steps, so each must have one.
void CheckKeepBest(const JobSpec& spec, Violations* violations) {
  const char* field = "checkpoint.keep_best";
  if (!spec.checkpoint().keep_best()) return;
  if (!violations->Expect(spec.has_eval(), field, "true", "false without eval, which measures") ||
      !violations->Expect(!spec.checkpoint().disabled(), field, "true",
                          "false, because checkpoints are disabled") ||
      !violations->Sound({"checkpoint.interval_steps", "eval.interval_steps"})) {
    return;
  }
  const int64_t saved = spec.checkpoint().interval_steps(), measured = spec.eval().interval_steps();
  violations->Expect(measured > 0 && saved % measured == 0, "checkpoint.interval_steps", saved,
                     absl::StrCat("a multiple of eval.interval_steps ", measured,
                                  ", because checkpoint.keep_best compares the losses of "
                                  "checkpoints"));
}

void CheckPrompts(const v1alpha1::SampleSpec& sample, Violations* violations) {
  const char* field = "sample.prompts";
  const int count = sample.prompts_size();
  if (!violations->Expect(count > 0 && count <= kMaxPrompts, field, absl::StrCat(count, " prompts"),
                          absl::StrCat("1 to ", kMaxPrompts))) {
    return;
  }
  for (const std::string& prompt : sample.prompts()) {
    if (!violations->Expect(!prompt.empty() && prompt.size() <= kMaxPromptBytes, field,
                            absl::StrCat(prompt.size(), " bytes"),
                            absl::StrCat("1 to ", kMaxPromptBytes, " bytes each")) ||
        !violations->Expect(prompt.find('\0') == std::string::npos, field, Quoted(prompt),
                            "text without NUL bytes")) {
      return;
    }
  }
}

// Texts come from checkpoints, so there must be one at each of these steps.
void CheckSample(const JobSpec& spec, Violations* violations) {
  if (!spec.has_sample()) return;
  CheckPrompts(spec.sample(), violations);
  const char* interval = "sample.interval_steps";
  if (!violations->Sound({interval, "checkpoint.interval_steps"})) return;
  const int64_t sampled = spec.sample().interval_steps(),
                saved = spec.checkpoint().interval_steps();
  if (!violations->Expect(!spec.checkpoint().disabled(), interval, sampled,
                          "no section sample, because checkpoints are disabled")) {
    return;
  }
  violations->Expect(
      saved > 0 && sampled % saved == 0, interval, sampled,
      saved > 0
          ? absl::StrCat("a multiple of checkpoint.interval_steps ", saved,
                         ", because text comes from checkpoints")
          : std::string("checkpoint.interval_steps above 0, because text comes from checkpoints"));
}

void CheckQueue(const v1alpha1::QueueSpec& queue, Violations* violations) {
  violations->Expect(IsValidName(queue.project()), "queue.project", Quoted(queue.project()),
                     "1 to 63 of [a-z0-9-], starting with a letter and not ending with '-'");
}

void CheckTypes(const JobSpec& spec, Violations* violations) {
  const char* wire = "parallelism.wire";
  if (!violations->Sound({"precision", wire})) return;
  violations->Expect(spec.parallelism().wire() == v1alpha1::PRECISION_BF16 ||
                         spec.precision() == v1alpha1::PRECISION_F32,
                     wire, "PRECISION_F32",
                     "PRECISION_BF16: activations travel no wider than precision");
}

}  // namespace

void CheckBatch(const JobSpec& spec, Violations* violations) {
  CheckSteps(spec, violations);
  const char* field = "global_batch_size";
  const int micro = spec.micro_batch_size(), global = spec.global_batch_size();
  const int replicas = spec.parallelism().dp_size();
  if (!violations->Sound({"micro_batch_size", "parallelism.dp_size", field}) ||
      !violations->Expect(global % micro == 0, field, global,
                          absl::StrCat("a multiple of micro_batch_size ", micro)) ||
      !violations->Expect(
          global / micro % replicas == 0, field, global,
          absl::StrCat("a multiple of micro_batch_size ", micro, " x dp_size ", replicas)) ||
      !violations->Sound({"model.sequence_length"})) {
    return;
  }
  const int64_t tokens = int64_t{global} * spec.model().sequence_length();
  violations->Expect(tokens <= kMaxTokensPerStep, field, absl::StrCat(tokens, " tokens per step"),
                     absl::StrCat("at most ", kMaxTokensPerStep));
}

void CheckTraining(const JobSpec& spec, Violations* violations) {
  CheckOptimizer(spec.optimizer(), violations);
  CheckCheckpoint(spec.checkpoint(), violations);
  CheckKeepBest(spec, violations);
  CheckSample(spec, violations);
  CheckQueue(spec.queue(), violations);
  CheckTypes(spec, violations);
}

}  // namespace stretto::spec

// SPDX-License-Identifier: Apache-2.0

// Converts the messages of an assignment to plain structs, section by section, and resolves names
// to paths under this node's roots. A path that leaves its root is refused.

#include "worker/trainer/job_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/beneath.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/spec/job/hash.h"
#include "proto/spec/job/normalize.h"
#include "proto/spec/job/resume_name.h"
#include "worker/data/open_tokens.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::trainer {
namespace {

OptimizerConfig OptimizerFrom(const v1alpha1::OptimizerSpec& spec) {
  return {.learning_rate = spec.learning_rate(),
          .min_learning_rate = spec.min_learning_rate(),
          .beta1 = spec.beta1(),
          .beta2 = spec.beta2(),
          .epsilon = spec.epsilon(),
          .weight_decay = spec.weight_decay(),
          .clip_norm = spec.clip_norm(),
          .warmup_steps = spec.warmup_steps(),
          .decay_steps = spec.decay_steps(),
          .max_skipped_updates = spec.max_skipped_updates()};
}

// Describes the held-out part of the training data by everything that decides its tokens. A
// held-out loss of other data must not continue this history.
std::string HeldOutOf(const DataConfig& data) {
  return absl::StrFormat(
      "the held-out %.17g of %s", data.held_out,
      absl::StrJoin(data.parts, ", ", [](std::string* out, const DataPart& part) {
        absl::StrAppendFormat(out, "%s (%.17g)", part.name, part.weight);
      }));
}

absl::StatusOr<EvaluationConfig> EvaluationFrom(const v1alpha1::EvalSpec& eval,
                                                int micro_batch_size, const DataConfig& data) {
  const int64_t sequences = int64_t{eval.batches()} * micro_batch_size;
  EvaluationConfig config{
      .interval_steps = eval.interval_steps(),
      .batches = eval.batches(),
      .prefix = eval.prefix(),
      .early_stop = {.patience = eval.early_stop().patience(),
                     .min_improvement = eval.early_stop().min_improvement()},
      .of = absl::StrCat("the first ", sequences, " sequences of ",
                         eval.prefix().empty() ? HeldOutOf(data) : eval.prefix())};
  if (!eval.prefix().empty()) RETURN_IF_ERROR(DataPath(eval.prefix(), data.root).status());
  return config;
}

absl::StatusOr<DataConfig> DataFrom(const v1alpha1::AttachResponse& task, const JobConfig& config) {
  const v1alpha1::DataSpec& spec = task.assign().spec().data();
  DataConfig data{.root = task.data_root(),
                  .parts = {},
                  .held_out = spec.held_out(),
                  .sequence_length = config.engine.model.sequence_length,
                  .seed = config.seed,
                  .vocab_size = config.engine.model.vocab_size,
                  .document_mask = config.engine.document_mask};
  for (const v1alpha1::BlendPart& part : spec.blend()) {
    data.parts.push_back({part.prefix(), part.weight()});
  }
  if (data.parts.empty()) data.parts.push_back({spec.prefix()});
  for (const DataPart& part : data.parts) {
    RETURN_IF_ERROR(DataPath(part.name, data.root).status());
  }
  return data;
}

// Resolves "KIND:PATH", whose path is under the data root.
absl::StatusOr<std::string> ModelBeneath(const std::string& root, const std::string& name) {
  const size_t path = name.find(':') + 1;
  ASSIGN_OR_RETURN(const std::string absolute, PathBeneath(root, name.substr(path)));
  return name.substr(0, path) + absolute;
}

// Sets the weights that training starts with. Those of a resumed run replace the initial ones.
absl::Status SetStart(const v1alpha1::AttachResponse& task, JobConfig* config) {
  const v1alpha1::JobSpec& spec = task.assign().spec();
  const std::string& resume = spec.checkpoint().resume_from();
  // What the first attempt started with is behind it, and may be gone.
  if (config->saved_step > 0) return absl::OkStatus();
  if (absl::StartsWith(resume, "hf:")) {
    ASSIGN_OR_RETURN(config->resume_model, PathBeneath(task.data_root(), resume.substr(3)));
  } else if (const auto name = spec::ResumeNameOf(resume)) {
    ASSIGN_OR_RETURN(config->resume_folder, PathBeneath(task.checkpoint_root(), name->path()));
    config->resume_exact = !name->checkpoint.empty();
  } else if (!spec.model().initial_weights().empty()) {
    ASSIGN_OR_RETURN(config->initial_weights,
                     ModelBeneath(task.data_root(), spec.model().initial_weights()));
  }
  return absl::OkStatus();
}

}  // namespace

double OptimizerConfig::LearningRateAt(int64_t step) const {
  // Linear warm-up, then a half cosine. Spec validation makes decay_steps at least warmup_steps.
  if (step <= warmup_steps) {
    return learning_rate * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  if (step >= decay_steps) return min_learning_rate;
  const double progress =
      static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
  return min_learning_rate +
         0.5 * (learning_rate - min_learning_rate) * (1 + std::cos(std::numbers::pi * progress));
}

absl::StatusOr<JobConfig> ConfigFrom(const v1alpha1::AttachResponse& task, Rank rank) {
  // Names of the job are checked below. What they name is opened later, and only in these folders.
  Confine(task.data_root(), Links::kBeneath);
  Confine(task.checkpoint_root(), Links::kBeneath);
  Confine(task.run_folder(), Links::kNone);
  JobConfig config;
  config.spec = spec::Normalize(task.assign().spec());
  const v1alpha1::JobSpec& spec = config.spec;
  config.job_id = task.assign().job_id();
  config.job_uid = task.assign().job_uid();
  config.epoch = task.assign().epoch();
  config.attempt = task.assign().attempt();
  config.saved_step = task.assign().saved_step();
  config.rank = rank;
  for (const auto& assigned : task.assign().ranks())
    config.ranks_on_node.push_back(Rank::Of(assigned.rank()));
  config.on_gpu = spec.device() == v1alpha1::DEVICE_CUDA;
  ASSIGN_OR_RETURN(config.engine, EngineSpecFrom(spec));
  config.auto_merge_wgrads = spec.schedule().parameters().auto_merge_wgrads();
  config.auto_warm_up = spec.schedule().pipeline().auto_warm_up();
  config.optimizer = OptimizerFrom(spec.optimizer());
  config.steps = spec.steps();
  config.seed = spec.seed();
  config.profile_steps = spec.profile().steps();
  if (spec.has_emulated_link()) {
    config.emulated_link =
        Link{.bytes_per_second = spec.emulated_link().gigabits_per_second() * 1e9 / 8,
             .latency = absl::Microseconds(spec.emulated_link().latency_microseconds())};
  }
  ASSIGN_OR_RETURN(config.data, DataFrom(task, config));
  config.allow_other_tokenizer = spec.data().allow_other_tokenizer();
  ASSIGN_OR_RETURN(config.checkpoint_folder, PathBeneath(task.checkpoint_root(), config.job_id));
  RETURN_IF_ERROR(SetStart(task, &config));
  if (spec.has_eval()) {
    ASSIGN_OR_RETURN(config.evaluation,
                     EvaluationFrom(spec.eval(), spec.micro_batch_size(), config.data));
  }
  config.checkpoint_interval = spec.checkpoint().interval_steps();
  config.checkpoint_keep = spec.checkpoint().keep();
  // A job that may end early is after its best weights, which are not the last ones then.
  config.checkpoint_keep_best =
      spec.checkpoint().keep_best() || spec.eval().early_stop().patience() > 0;
  config.checkpoint_disabled = spec.checkpoint().disabled();
  if (spec.checkpoint().has_asynchronous())
    config.checkpoint_asynchronous = spec.checkpoint().asynchronous();
  config.run_folder = task.run_folder();
  config.interface_address = task.interface_address();
  config.tuning_root = task.tuning_folder();
  config.tuning_folder = absl::StrCat(task.tuning_folder(), "/rank-", rank.value());
  config.decay_steps_open = !spec.optimizer().has_decay_steps();
  SetDecaySteps(
      config.decay_steps_open ? std::max<int64_t>(spec.steps(), 1) : spec.optimizer().decay_steps(),
      &config);
  return config;
}

void SetMergedWgrads(int micro_batches, JobConfig* config) {
  config->engine.schedule.merge_wgrads = micro_batches;
  config->spec.mutable_schedule()->mutable_parameters()->set_merge_wgrads(micro_batches);
  config->spec_hash = spec::HashOf(config->spec);
}

void SetDecaySteps(int64_t decay_steps, JobConfig* config) {
  config->optimizer.decay_steps = decay_steps;
  config->spec.mutable_optimizer()->set_decay_steps(decay_steps);
  config->spec_hash = spec::HashOf(config->spec);
  config->math_hash = spec::MathHashOf(config->spec);
}

}  // namespace stretto::trainer

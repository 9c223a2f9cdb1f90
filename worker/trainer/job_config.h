// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rank's task in the form that the engine and the train loop need.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stretto/v1alpha1/trainer.pb.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/comm/paced.h"
#include "worker/data/training_data.h"
#include "worker/engine/spec/spec.h"
#include "worker/trainer/early_stop.h"

namespace stretto::trainer {

// AdamW with linear warm-up and cosine decay to min_learning_rate.
struct OptimizerConfig {
  double learning_rate = 0, min_learning_rate = 0;
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  double clip_norm = 0;
  int64_t warmup_steps = 0, decay_steps = 0;
  int max_skipped_updates = 0;

  // Returns the learning rate of a step; steps count from 1.
  double LearningRateAt(int64_t step) const;
};

// Evaluation on held-out data, after every interval_steps and after the last step. 0: never.
struct EvaluationConfig {
  int64_t interval_steps = 0;
  int batches = 0;          // of micro_batch_size sequences
  std::string prefix = {};  // as OpenTokens takes it; empty: the held-out part of the training data
  EarlyStopRule early_stop = {};
  std::string of = {};  // HeldOutState::of
};

struct JobConfig {
  std::string job_id, job_uid;
  int64_t epoch = 0;
  Rank rank = 0;
  std::vector<Rank> ranks_on_node;  // of this job, including this rank
  bool on_gpu = false;     // each rank has a GPU of its own; else they share the node's memory
  v1alpha1::JobSpec spec;  // normalized; spec_hash is its hash
  EngineSpec engine;
  // Whether memory chooses engine.schedule.merge_wgrads (SetMergedWgrads), which is 1 until then.
  bool auto_merge_wgrads = false;
  // Whether the ranks choose engine.schedule.warm_up (warm_ups.h), which is that of 1f1b until
  // then.
  bool auto_warm_up = false;
  OptimizerConfig optimizer;
  // Whether the spec leaves optimizer.decay_steps open, because the job resumes. They are `steps`
  // until those of a checkpoint are taken (settings_file.h), which kept_decay_steps then is.
  bool decay_steps_open = false;
  int64_t kept_decay_steps = 0;
  int64_t steps = 0;
  uint64_t seed = 0;
  int profile_steps = 0;
  std::optional<Link> emulated_link;
  EvaluationConfig evaluation;

  DataConfig data;
  // Whether the tokenizer of the data may differ from that of the weights.
  bool allow_other_tokenizer = false;
  std::string checkpoint_folder;  // absolute: CHECKPOINT_ROOT/JOB_ID
  std::string initial_weights;    // as OpenModel takes it, absolute; empty: random from the seed
  int attempt = 1;  // above 1, the job's own checkpoints come before those of resume_*
  // Of the newest checkpoint that an earlier attempt is known to have saved; 0: none is known.
  int64_t saved_step = 0;
  std::string resume_folder;  // absolute; empty: start from scratch, or from resume_model
  bool resume_exact = false;  // resume_folder is one checkpoint, not a job's folder
  std::string resume_model;   // absolute: a Hugging Face model with its optimizer's state
  int64_t checkpoint_interval = 0;
  int checkpoint_keep = 0;
  bool checkpoint_keep_best = false;
  bool checkpoint_disabled = false;
  // Whether checkpoints are written while training continues; nothing: where memory suffices.
  std::optional<bool> checkpoint_asynchronous = {};
  std::string run_folder;
  std::string interface_address;
  // How long the ranks wait for each other to appear. If there is a coordinator, it finds out which
  // rank is missing.
  absl::Duration meeting = absl::InfiniteDuration();
  // The folder of measured choices of a GPU's algorithms. Each rank number has its own on a node:
  // ranks measure at the same time, and a rank that resumes from a checkpoint must find its own
  // choices.
  std::string tuning_folder;
  std::string tuning_root;  // has those of all ranks and jobs of the node, which write there
  std::string spec_hash;    // spec::HashOf(spec)
  std::string math_hash;    // spec::MathHashOf(spec)

  bool evaluates() const { return evaluation.interval_steps > 0; }
  // Whether a backend must compute the same bits in every run.
  bool repeatable() const { return engine.library_attention == LibraryAttention::kRepeatable; }
  // Whether training continues after some checkpoint, so that it could be asynchronous.
  bool saves_between_steps() const {
    return !checkpoint_disabled && checkpoint_interval > 0 && checkpoint_interval < steps;
  }
};

inline Attempt AttemptOf(const JobConfig& config) { return {Epoch(config.epoch), config.job_uid}; }

// Makes the config of a rank. The spec is normalized and validated here too; then everything that
// depends on this node's roots is checked. Errors: InvalidArgument, PermissionDenied (a path leaves
// its root), naming the field.
absl::StatusOr<JobConfig> ConfigFrom(const v1alpha1::AttachResponse& task, Rank rank);

// Sets engine.schedule.merge_wgrads, a divisor of engine.micro_batches, and everything that depends
// on it.
void SetMergedWgrads(int micro_batches, JobConfig* config);

// Sets optimizer.decay_steps and everything that depends on it.
void SetDecaySteps(int64_t decay_steps, JobConfig* config);

}  // namespace stretto::trainer

// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

namespace stretto::trainer {
namespace {

using testing::ElementsAre;

v1alpha1::AttachResponse Task() {
  const std::string root = testing::TempDir() + "/job_config_test";
  std::filesystem::create_directories(root);
  v1alpha1::AttachResponse task;
  task.set_data_root(root);
  task.set_checkpoint_root(root);
  v1alpha1::Assign* assign = task.mutable_assign();
  assign->set_job_id("job");
  assign->set_job_uid("0123456789abcdef");
  v1alpha1::JobSpec* spec = assign->mutable_spec();
  spec->mutable_model()->set_preset("gpt-tiny");
  spec->mutable_data()->set_prefix("text");
  spec->mutable_parallelism()->set_tp_size(2);
  spec->mutable_schedule()->set_name("domino_row");
  spec->mutable_schedule()->mutable_parameters()->set_slices(2);
  spec->mutable_optimizer()->set_learning_rate(1e-3);
  spec->mutable_optimizer()->set_min_learning_rate(1e-4);
  spec->mutable_optimizer()->set_warmup_steps(10);
  spec->mutable_optimizer()->set_decay_steps(110);
  spec->set_micro_batch_size(5);
  spec->set_global_batch_size(10);
  spec->set_steps(100);
  return task;
}

// A link "out" in `root` that leaves it.
void LinkOut(const std::string& root) {
  std::error_code exists;
  std::filesystem::create_directory_symlink("..", root + "/out", exists);
}

TEST(JobConfigTest, SlicesAreAsEqualAsCanBe) {
  const auto config = ConfigFrom(Task(), 1);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->engine.schedule.slices, ElementsAre(3, 2));
  EXPECT_EQ(config->engine.micro_batches, 2);
  EXPECT_EQ(config->engine.sequences_per_step(), 10);
}

TEST(JobConfigTest, ARankOnAGpuHasATuningFolderOfItsOwn) {
  v1alpha1::AttachResponse task = Task();
  task.set_tuning_folder("/state/tuning");
  EXPECT_FALSE(ConfigFrom(task, 1)->on_gpu);
  task.mutable_assign()->mutable_spec()->set_device(v1alpha1::DEVICE_CUDA);
  EXPECT_TRUE(ConfigFrom(task, 1)->on_gpu);
  EXPECT_EQ(ConfigFrom(task, 1)->tuning_folder, "/state/tuning/rank-1");
  EXPECT_EQ(ConfigFrom(task, 1)->tuning_root, "/state/tuning");
}

TEST(JobConfigTest, WhetherCheckpointsAreAsynchronousMayBeLeftOpen) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::CheckpointSpec& checkpoint =
      *task.mutable_assign()->mutable_spec()->mutable_checkpoint();
  EXPECT_EQ(ConfigFrom(task, 1)->checkpoint_asynchronous, std::nullopt);
  EXPECT_FALSE(ConfigFrom(task, 1)->saves_between_steps());
  checkpoint.set_interval_steps(99);
  EXPECT_TRUE(ConfigFrom(task, 1)->saves_between_steps());
  const std::string hash = ConfigFrom(task, 1)->spec_hash;
  for (bool asynchronous : {false, true}) {
    checkpoint.set_asynchronous(asynchronous);
    EXPECT_EQ(ConfigFrom(task, 1)->checkpoint_asynchronous, asynchronous);
    EXPECT_EQ(ConfigFrom(task, 1)->spec_hash, hash);
  }
  checkpoint.set_interval_steps(100);  // the last step
  EXPECT_FALSE(ConfigFrom(task, 1)->saves_between_steps());
}

TEST(JobConfigTest, AJobThatMayEndEarlyKeepsItsBestCheckpoint) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::JobSpec& spec = *task.mutable_assign()->mutable_spec();
  spec.mutable_eval()->set_interval_steps(10);
  spec.mutable_eval()->set_prefix("held");
  spec.mutable_checkpoint()->set_interval_steps(25);  // between evaluations too
  EXPECT_FALSE(ConfigFrom(task, 1)->checkpoint_keep_best);
  spec.mutable_eval()->mutable_early_stop()->set_patience(2);
  EXPECT_TRUE(ConfigFrom(task, 1)->checkpoint_keep_best);
}

TEST(JobConfigTest, TheDecayOfAJobThatResumesMayBeLeftOpen) {
  v1alpha1::AttachResponse task = Task();
  EXPECT_FALSE(ConfigFrom(task, 1)->decay_steps_open);
  EXPECT_EQ(ConfigFrom(task, 1)->optimizer.decay_steps, 110);
  v1alpha1::JobSpec& spec = *task.mutable_assign()->mutable_spec();
  spec.mutable_checkpoint()->set_resume_from("other");
  EXPECT_FALSE(ConfigFrom(task, 1)->decay_steps_open);
  spec.mutable_optimizer()->clear_decay_steps();
  EXPECT_TRUE(ConfigFrom(task, 1)->decay_steps_open);
  EXPECT_EQ(ConfigFrom(task, 1)->optimizer.decay_steps, 100);  // steps, until it is known
}

TEST(JobConfigTest, APresetGivesTheWholeModel) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::ModelSpec& model = *task.mutable_assign()->mutable_spec()->mutable_model();
  EXPECT_EQ(ConfigFrom(task, 0)->engine.model.architecture.family, Family::kGpt);
  EXPECT_EQ(ConfigFrom(task, 0)->engine.model.dropout, 0);
  model.set_preset("llama3-8b");
  model.set_sequence_length(512);
  model.set_dropout(0.25);
  const ModelSpec llama = ConfigFrom(task, 0)->engine.model;
  EXPECT_EQ(llama.architecture.family, Family::kLlama);
  EXPECT_EQ(llama.layers, 32);
  EXPECT_EQ(llama.hidden, 4096);
  EXPECT_EQ(llama.heads, 32);
  EXPECT_EQ(llama.kv_heads, 8);
  EXPECT_EQ(llama.ffn_hidden, 14336);
  EXPECT_EQ(llama.sequence_length, 512);
  EXPECT_EQ(llama.vocab_size, 128256);
  EXPECT_EQ(llama.rotary_base, 500000);
  EXPECT_EQ(llama.dropout, 0.25);
}

TEST(JobConfigTest, WeightsToStartFromLieBeneathTheDataRoot) {
  v1alpha1::AttachResponse task = Task();
  const std::string root = std::filesystem::canonical(task.data_root());
  task.set_checkpoint_root(root + "/elsewhere");
  std::filesystem::create_directories(task.checkpoint_root());
  v1alpha1::JobSpec& spec = *task.mutable_assign()->mutable_spec();
  const std::string plain = ConfigFrom(task, 0)->spec_hash;
  EXPECT_EQ(ConfigFrom(task, 0)->initial_weights, "");
  spec.mutable_model()->set_initial_weights("hf:models/gpt");
  EXPECT_EQ(ConfigFrom(task, 0)->initial_weights, "hf:" + root + "/models/gpt");
  EXPECT_EQ(ConfigFrom(task, 0)->spec_hash, plain);
  spec.mutable_model()->set_initial_weights("llmc:gpt.bin");
  EXPECT_EQ(ConfigFrom(task, 0)->initial_weights, "llmc:" + root + "/gpt.bin");
  LinkOut(root);
  spec.mutable_model()->set_initial_weights("hf:out/gpt");
  EXPECT_EQ(ConfigFrom(task, 0).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(JobConfigTest, ARunThatGoesOnLeavesTheInitialWeights) {
  v1alpha1::AttachResponse task = Task();
  const std::string root = std::filesystem::canonical(task.data_root());
  task.set_checkpoint_root(root + "/elsewhere");
  std::filesystem::create_directories(task.checkpoint_root());
  v1alpha1::JobSpec& spec = *task.mutable_assign()->mutable_spec();
  spec.mutable_model()->set_initial_weights("hf:models/gpt");
  spec.mutable_checkpoint()->set_resume_from("other");
  EXPECT_EQ(ConfigFrom(task, 0)->initial_weights, "");
  EXPECT_EQ(ConfigFrom(task, 0)->resume_folder, root + "/elsewhere/other");
  spec.mutable_checkpoint()->set_resume_from("hf:exports/other");
  EXPECT_EQ(ConfigFrom(task, 0)->initial_weights, "");
  EXPECT_EQ(ConfigFrom(task, 0)->resume_folder, "");
  EXPECT_EQ(ConfigFrom(task, 0)->resume_model, root + "/exports/other");
  LinkOut(root);
  spec.mutable_checkpoint()->set_resume_from("hf:out/other");
  EXPECT_EQ(ConfigFrom(task, 0).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(JobConfigTest, DimensionsGiveTheWholeModel) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::ModelSpec& model = *task.mutable_assign()->mutable_spec()->mutable_model();
  model.clear_preset();
  model.set_family(v1alpha1::FAMILY_LLAMA);
  model.set_layers(3);
  model.set_hidden(32);
  model.set_heads(4);
  model.set_kv_heads(2);
  model.set_ffn_hidden(48);
  model.set_sequence_length(16);
  model.set_vocab_size(100);
  model.set_rotary_base(20000);
  const ModelSpec found = ConfigFrom(task, 0)->engine.model;
  EXPECT_EQ(found.architecture.family, Family::kLlama);
  EXPECT_EQ(found.layers, 3);
  EXPECT_EQ(found.kv_heads, 2);
  EXPECT_EQ(found.ffn_hidden, 48);
  EXPECT_EQ(found.rotary_base, 20000);
  EXPECT_EQ(found.norm_epsilon, 1e-5);
  EXPECT_FALSE(found.head_is_tied());
  EXPECT_EQ(found.rotary_scaling, RotaryScaling{});
  model.set_kv_heads(3);
  EXPECT_EQ(std::string(ConfigFrom(task, 0).status().message()),
            "spec.model.kv_heads: found 3, expected a divisor of heads 4");
}

TEST(JobConfigTest, OptionsGoWithAPresetToo) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::ModelSpec& model = *task.mutable_assign()->mutable_spec()->mutable_model();
  model.set_preset("llama-tiny");
  model.set_norm_epsilon(1e-6);
  model.set_tied_head(true);
  v1alpha1::RotaryScaling& scaling = *model.mutable_rotary_scaling();
  scaling.set_kind(v1alpha1::RotaryScaling::LLAMA3);
  scaling.set_factor(32);
  scaling.set_original_sequence_length(16);
  const ModelSpec found = ConfigFrom(task, 0)->engine.model;
  EXPECT_EQ(found.norm_epsilon, 1e-6);
  EXPECT_TRUE(found.head_is_tied());
  RotaryScaling expected{
      .kind = RotaryScaling::Kind::kLlama3, .factor = 32, .original_sequence_length = 16};
  EXPECT_EQ(found.rotary_scaling, expected);
  scaling.set_low_frequency_factor(2);
  scaling.set_high_frequency_factor(8);
  expected.low_frequency_factor = 2;
  expected.high_frequency_factor = 8;
  EXPECT_EQ(ConfigFrom(task, 0)->engine.model.rotary_scaling, expected);
  scaling.Clear();
  scaling.set_kind(v1alpha1::RotaryScaling::LINEAR);
  scaling.set_factor(1.5);
  EXPECT_EQ(ConfigFrom(task, 0)->engine.model.rotary_scaling,
            (RotaryScaling{.kind = RotaryScaling::Kind::kLinear, .factor = 1.5}));
}

TEST(JobConfigTest, EveryParameterReachesTheEngine) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::JobSpec& spec = *task.mutable_assign()->mutable_spec();
  const EngineSpec plain = ConfigFrom(task, 0)->engine;
  EXPECT_EQ(plain.schedule.splits, 1);
  EXPECT_FALSE(plain.schedule.sequence_parallel);
  EXPECT_EQ(plain.schedule.recompute, Recompute::kNone);
  EXPECT_EQ(plain.wire_dtype, DType::kF32);
  spec.mutable_schedule()->set_name("domino_hybrid");
  v1alpha1::ScheduleParameters& parameters = *spec.mutable_schedule()->mutable_parameters();
  parameters.set_splits(4);
  parameters.set_sequence_parallel(true);
  parameters.set_recompute(v1alpha1::RECOMPUTE_FULL);
  parameters.set_defer_wgrads(3);
  parameters.set_merge_wgrads(2);
  spec.mutable_parallelism()->set_wire(v1alpha1::PRECISION_BF16);
  const EngineSpec engine = ConfigFrom(task, 0)->engine;
  EXPECT_EQ(engine.schedule.name, "domino_hybrid");
  EXPECT_EQ(engine.schedule.splits, 4);
  EXPECT_TRUE(engine.schedule.sequence_parallel);
  EXPECT_EQ(engine.schedule.recompute, Recompute::kFull);
  EXPECT_EQ(engine.schedule.defer_wgrads, 3);
  EXPECT_EQ(engine.schedule.merge_wgrads, 2);
  EXPECT_EQ(engine.dtype, DType::kF32);
  EXPECT_EQ(engine.wire_dtype, DType::kBF16);
  parameters.set_recompute(v1alpha1::RECOMPUTE_SELECTIVE);
  EXPECT_EQ(ConfigFrom(task, 0)->engine.schedule.recompute, Recompute::kSelective);
}

TEST(JobConfigTest, TheWireIsAsPreciseAsTheComputationUnlessToldOtherwise) {
  v1alpha1::AttachResponse task = Task();
  task.mutable_assign()->mutable_spec()->set_precision(v1alpha1::PRECISION_BF16);
  EXPECT_EQ(ConfigFrom(task, 0)->engine.dtype, DType::kBF16);
  EXPECT_EQ(ConfigFrom(task, 0)->engine.wire_dtype, DType::kBF16);
}

// Where no norm changes an update and the first that is not finite fails the job.
TEST(JobConfigTest, UpdatesAtOnceWhereTheNormDecidesNothing) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::OptimizerSpec& optimizer = *task.mutable_assign()->mutable_spec()->mutable_optimizer();
  for (double clip_norm : {0.0, 1.0}) {
    for (int max_skipped_updates : {1, 2}) {
      optimizer.set_clip_norm(clip_norm);
      optimizer.set_max_skipped_updates(max_skipped_updates);
      EXPECT_EQ(ConfigFrom(task, 0)->engine.update_at_once,
                clip_norm == 0 && max_skipped_updates == 1);
    }
  }
}

TEST(JobConfigTest, HasTheRanksOfItsNode) {
  v1alpha1::AttachResponse task = Task();
  task.mutable_assign()->add_ranks()->set_rank(0);
  task.mutable_assign()->add_ranks()->set_rank(1);
  EXPECT_THAT(ConfigFrom(task, 0)->ranks_on_node, testing::ElementsAre(Rank(0), Rank(1)));
}

TEST(JobConfigTest, LearningRateWarmsUpThenFollowsTheCosine) {
  const OptimizerConfig optimizer = ConfigFrom(Task(), 0)->optimizer;
  EXPECT_DOUBLE_EQ(optimizer.LearningRateAt(1), 1e-4);
  EXPECT_DOUBLE_EQ(optimizer.LearningRateAt(10), 1e-3);
  EXPECT_NEAR(optimizer.LearningRateAt(60), 0.5 * (1e-3 + 1e-4), 1e-12);
  EXPECT_DOUBLE_EQ(optimizer.LearningRateAt(110), 1e-4);
  EXPECT_DOUBLE_EQ(optimizer.LearningRateAt(1000), 1e-4);
}

// The hash after a change to the spec.
template <class Change>
std::string HashAfter(Change change) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::JobSpec* spec = task.mutable_assign()->mutable_spec();
  change(spec, spec->mutable_schedule()->mutable_parameters());
  const auto config = ConfigFrom(task, 0);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? config->spec_hash : "";
}

using Spec = v1alpha1::JobSpec*;
using Parameters = v1alpha1::ScheduleParameters*;

TEST(JobConfigTest, AMergeLeftToMemoryHasTheHashOfTheNumberChosen) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::ScheduleParameters& parameters =
      *task.mutable_assign()->mutable_spec()->mutable_schedule()->mutable_parameters();
  EXPECT_FALSE(ConfigFrom(task, 0)->auto_merge_wgrads);
  parameters.set_auto_merge_wgrads(true);
  JobConfig config = *ConfigFrom(task, 0);
  EXPECT_TRUE(config.auto_merge_wgrads);
  EXPECT_EQ(config.engine.schedule.merge_wgrads, 1);
  for (int merged : {1, 2}) {
    SetMergedWgrads(merged, &config);
    EXPECT_EQ(config.engine.schedule.merge_wgrads, merged);
    EXPECT_EQ(config.spec_hash,
              HashAfter([&](Spec, Parameters p) { p->set_merge_wgrads(merged); }));
  }
}

TEST(JobConfigTest, DataReachesTheSampler) {
  v1alpha1::AttachResponse task = Task();
  v1alpha1::JobSpec& spec = *task.mutable_assign()->mutable_spec();
  spec.set_seed(7);
  DataConfig data = ConfigFrom(task, 0)->data;
  EXPECT_EQ(data.root, task.data_root());
  ASSERT_EQ(data.parts.size(), 1u);
  EXPECT_EQ(data.parts[0].name, "text");
  EXPECT_EQ(data.held_out, 0);
  EXPECT_EQ(data.sequence_length, 64);
  EXPECT_EQ(data.vocab_size, 257);
  EXPECT_EQ(data.seed, 7u);
  EXPECT_TRUE(data.shuffle);

  spec.clear_data();
  v1alpha1::BlendPart* part = spec.mutable_data()->add_blend();
  part->set_prefix("a");
  part->set_weight(0.7);
  part = spec.mutable_data()->add_blend();
  part->set_prefix("llmc:b_*.bin");
  part->set_weight(0.3);
  spec.mutable_data()->set_held_out(0.01);
  data = ConfigFrom(task, 0)->data;
  ASSERT_EQ(data.parts.size(), 2u);
  EXPECT_EQ(data.parts[0].name, "a");
  EXPECT_EQ(data.parts[0].weight, 0.7);
  EXPECT_EQ(data.parts[1].name, "llmc:b_*.bin");
  EXPECT_EQ(data.parts[1].weight, 0.3);
  EXPECT_EQ(data.held_out, 0.01);
}

// Losses that may be compared: a resumed run forgets those of other tokens.
TEST(JobConfigTest, WhatIsMeasuredIsNamedByItsData) {
  const int micro_batch = Task().assign().spec().micro_batch_size();
  const auto of = [](const std::string& first, double weight, double held_out, int batches) {
    v1alpha1::AttachResponse task = Task();
    v1alpha1::JobSpec& spec = *task.mutable_assign()->mutable_spec();
    spec.mutable_eval()->set_interval_steps(5);
    spec.mutable_eval()->set_batches(batches);
    spec.mutable_data()->set_prefix(weight > 0 ? "" : first);
    spec.mutable_data()->set_held_out(held_out);
    if (weight > 0) {
      v1alpha1::BlendPart* part = spec.mutable_data()->add_blend();
      part->set_prefix(first);
      part->set_weight(1);
      part = spec.mutable_data()->add_blend();
      part->set_prefix("b");
      part->set_weight(weight);
    }
    return ConfigFrom(task, 0)->evaluation.of;
  };
  EXPECT_EQ(of("a", 0, 0.25, 3), absl::StrCat("the first ", 3 * micro_batch,
                                              " sequences of the held-out 0.25 of a (1)"));
  EXPECT_EQ(of("a", 0.5, 0.25, 3),
            absl::StrCat("the first ", 3 * micro_batch,
                         " sequences of the held-out 0.25 of a (1), b (0.5)"));
  const std::set<std::string> all = {of("a", 0, 0.25, 3), of("c", 0, 0.25, 3), of("a", 0, 0.5, 3),
                                     of("a", 0, 0.25, 4), of("a", 1, 0.25, 3), of("a", 2, 0.25, 3),
                                     of("c", 2, 0.25, 3)};
  EXPECT_EQ(all.size(), 7u);

  v1alpha1::AttachResponse task = Task();
  v1alpha1::EvalSpec& eval = *task.mutable_assign()->mutable_spec()->mutable_eval();
  eval.set_interval_steps(5);
  eval.set_batches(2);
  eval.set_prefix("held");
  EXPECT_EQ(ConfigFrom(task, 0)->evaluation.of,
            absl::StrCat("the first ", 2 * micro_batch, " sequences of held"));
}

// What the spec shows is refused as such; what only this node shows, a link, is not permitted.
TEST(JobConfigTest, PathsMayNotLeaveTheirRoots) {
  v1alpha1::AttachResponse task = Task();
  LinkOut(task.data_root());
  v1alpha1::DataSpec* data = task.mutable_assign()->mutable_spec()->mutable_data();
  data->set_prefix("../secret");
  EXPECT_EQ(ConfigFrom(task, 0).status().code(), absl::StatusCode::kInvalidArgument);
  for (const char* name : {"out/secret", "llmc:out/secret_*.bin"}) {
    data->set_prefix(name);
    EXPECT_EQ(ConfigFrom(task, 0).status().code(), absl::StatusCode::kPermissionDenied) << name;
  }
  data->set_prefix("");
  for (const char* name : {"text", "out/secret"}) {
    v1alpha1::BlendPart* part = data->add_blend();
    part->set_prefix(name);
    part->set_weight(1);
  }
  EXPECT_EQ(ConfigFrom(task, 0).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST(JobConfigTest, ABadSpecIsRefusedInTheWordsOfItsRules) {
  v1alpha1::AttachResponse task = Task();
  task.mutable_assign()->mutable_spec()->set_global_batch_size(7);
  EXPECT_EQ(ConfigFrom(task, 0).status(),
            absl::InvalidArgumentError("spec.global_batch_size: found 7, expected a multiple of "
                                       "micro_batch_size 5"));
}

}  // namespace
}  // namespace stretto::trainer

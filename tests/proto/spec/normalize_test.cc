// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/job/normalize.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/spec/presets.h"
#include "proto/spec/schedules.h"
#include "tests/proto/spec/job_specs.h"

namespace stretto::spec {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::ElementsAre;
using v1alpha1::JobSpec;

TEST(NormalizeTest, FillsEveryDefault) {
  const JobSpec spec = Normalize(SpecWith("micro_batch_size: 5"));
  EXPECT_EQ(spec.model().hidden(), 384);
  EXPECT_EQ(spec.model().ffn_hidden(), 1536);
  EXPECT_EQ(spec.model().sequence_length(), 256);
  EXPECT_EQ(spec.model().family(), v1alpha1::FAMILY_GPT);
  EXPECT_EQ(spec.model().kv_heads(), 6);
  EXPECT_EQ(spec.model().norm_epsilon(), 1e-5);
  EXPECT_TRUE(spec.model().tied_head());
  EXPECT_FALSE(spec.model().has_rotary_scaling());
  EXPECT_EQ(spec.global_batch_size(), 5);
  EXPECT_EQ(spec.seed(), 1234u);
  EXPECT_EQ(spec.parallelism().tp_size(), 2);
  EXPECT_EQ(spec.parallelism().pp_size(), 1);
  EXPECT_FALSE(spec.schedule().has_pipeline());
  EXPECT_EQ(spec.parallelism().dp_size(), 1);
  EXPECT_EQ(spec.parallelism().ep_size(), 1);
  EXPECT_EQ(spec.parallelism().cp_size(), 1);
  EXPECT_EQ(spec.schedule().parameters().slices(), 2);
  EXPECT_THAT(spec.schedule().parameters().slice_sizes(), ElementsAre(3, 2));
  EXPECT_EQ(spec.schedule().parameters().splits(), 0);
  EXPECT_EQ(spec.schedule().parameters().recompute(), v1alpha1::RECOMPUTE_NONE);
  EXPECT_EQ(spec.optimizer().name(), "adamw");
  EXPECT_EQ(spec.optimizer().learning_rate(), 1e-3);
  EXPECT_DOUBLE_EQ(spec.optimizer().min_learning_rate(), 1e-4);
  EXPECT_EQ(spec.optimizer().beta1(), 0.9);
  EXPECT_EQ(spec.optimizer().beta2(), 0.95);
  EXPECT_EQ(spec.optimizer().epsilon(), 1e-8);
  EXPECT_EQ(spec.optimizer().weight_decay(), 0.1);
  EXPECT_TRUE(spec.optimizer().has_warmup_steps());
  EXPECT_EQ(spec.optimizer().decay_steps(), 100);
  EXPECT_EQ(spec.optimizer().clip_norm(), 1.0);
  EXPECT_EQ(spec.optimizer().max_skipped_updates(), 5);
  EXPECT_EQ(spec.checkpoint().keep(), 2);
  EXPECT_EQ(spec.precision(), v1alpha1::PRECISION_F32);
  EXPECT_EQ(spec.parallelism().wire(), v1alpha1::PRECISION_F32);
  EXPECT_EQ(spec.device(), v1alpha1::DEVICE_CPU);
}

TEST(NormalizeTest, ASpecIsShortenedToWhatIsNotItsDefault) {
  const JobSpec given = SpecWith("optimizer { learning_rate: 3e-4 } seed: 7 labels { key: 'a' }");
  const JobSpec shorter = WithoutDefaults(Normalize(given));
  EXPECT_TRUE(MessageDifferencer::Equals(shorter, given)) << shorter.DebugString();
}

TEST(NormalizeTest, WhatHasItsDefaultFollowsAChange) {
  JobSpec spec = WithoutDefaults(Normalize(SpecWith("")));
  spec.mutable_model()->set_preset("gpt-tiny");
  spec.set_steps(200);
  spec.set_micro_batch_size(8);
  spec.set_precision(v1alpha1::PRECISION_BF16);
  spec.mutable_optimizer()->set_learning_rate(1e-2);
  const JobSpec changed = Normalize(spec);
  EXPECT_TRUE(ViolationsOf(changed).empty());
  EXPECT_EQ(changed.model().hidden(), FindPreset("gpt-tiny")->hidden);
  EXPECT_EQ(changed.optimizer().decay_steps(), 200);
  EXPECT_THAT(changed.schedule().parameters().slice_sizes(), ElementsAre(4, 4));
  EXPECT_EQ(changed.parallelism().wire(), v1alpha1::PRECISION_BF16);
  EXPECT_DOUBLE_EQ(changed.optimizer().min_learning_rate(), 1e-3);
}

// A step of gpt-10m has a sequence of 256 tokens.
TEST(NormalizeTest, TokensAreAsManyStepsAsConsumeThem) {
  for (const auto& [tokens, steps] : {std::pair(1, 1), {256, 1}, {257, 2}, {2560, 10}}) {
    const JobSpec spec = Normalize(SpecWith(absl::StrCat("tokens: ", tokens), kNoSteps));
    EXPECT_EQ(spec.steps(), steps) << tokens;
    EXPECT_EQ(spec.optimizer().decay_steps(), steps);
    EXPECT_TRUE(ViolationsOf(spec).empty());
  }
  JobSpec shorter = WithoutDefaults(Normalize(SpecWith("tokens: 2560", kNoSteps)));
  EXPECT_EQ(shorter.steps(), 0);
  shorter.set_tokens(5120);
  EXPECT_EQ(Normalize(shorter).steps(), 20);
}

TEST(NormalizeTest, EverySpecIsShortenedWithoutLoss) {
  for (const JobSpec& given :
       {Parsed(kDimensions), Parsed(kLlama3), Parsed(kBlend),
        SpecWith("restart { max: 2 layouts { tp_size: 1 } } profile { steps: 2 } "
                 "data { held_out: 0.1 } eval { interval_steps: 5 batches: 1 } "
                 "checkpoint { resume_from: 'other' }"),
        SpecWith("parallelism { stages { layers: 4 } stages { layers: 2 tp_size: 1 } } "
                 "global_batch_size: 16")}) {
    const JobSpec normalized = Normalize(given);
    const JobSpec shorter = WithoutDefaults(normalized);
    EXPECT_TRUE(MessageDifferencer::Equals(Normalize(shorter), normalized)) << given.DebugString();
    EXPECT_LT(shorter.ByteSizeLong(), normalized.ByteSizeLong()) << given.DebugString();
  }
}

// It is the schedule of the checkpoint, which only its trainers can read.
TEST(NormalizeTest, AJobThatResumesLeavesTheDecayOpen) {
  EXPECT_FALSE(
      Normalize(SpecWith("checkpoint { resume_from: 'a' } optimizer { warmup_steps: 200 }"))
          .optimizer()
          .has_decay_steps());
  EXPECT_EQ(Normalize(SpecWith("checkpoint { resume_from: 'a' } optimizer { decay_steps: 7 }"))
                .optimizer()
                .decay_steps(),
            7);
  EXPECT_TRUE(Validate(Normalize(SpecWith(
                           "checkpoint { resume_from: 'a' } optimizer { warmup_steps: 200 }")))
                  .ok());
}

TEST(NormalizeTest, AStepHasAMicroBatchOfEachReplica) {
  EXPECT_EQ(
      Normalize(SpecWith("micro_batch_size: 5 parallelism { dp_size: 3 }")).global_batch_size(),
      15);
}

TEST(NormalizeTest, StagesHaveAChunk) {
  EXPECT_EQ(Normalize(SpecWith("parallelism { pp_size: 2 }")).parallelism().chunks_per_stage(), 1);
  EXPECT_EQ(Normalize(SpecWith("")).parallelism().chunks_per_stage(), 0);
}

TEST(NormalizeTest, StagesHaveAnOrder) {
  EXPECT_EQ(Normalize(SpecWith("parallelism { pp_size: 2 }")).schedule().pipeline().order(),
            "1f1b");
  EXPECT_EQ(Normalize(SpecWith("parallelism { pp_size: 2 } "
                               "schedule { pipeline { order: 'gpipe' } }"))
                .schedule()
                .pipeline()
                .order(),
            "gpipe");
}

TEST(NormalizeTest, OrdersThatDelayWeightGradientsSayByHowMuch) {
  const auto delay = [](const char* order) {
    const JobSpec spec = Normalize(SpecWith(
        absl::StrCat("parallelism { pp_size: 2 } schedule { pipeline { order: '", order, "' } }")));
    return spec.schedule().pipeline().wgrad_delay();
  };
  EXPECT_EQ(delay("eager_1f1b"), v1alpha1::WGRAD_DELAY_NONE);
  EXPECT_EQ(delay("gpipe"), v1alpha1::WGRAD_DELAY_UNSPECIFIED);
}

TEST(NormalizeTest, ASecondTimeChangesNothing) {
  const auto expect = [](const JobSpec& spec, const char* name) {
    const JobSpec once = Normalize(spec);
    EXPECT_TRUE(MessageDifferencer::Equals(once, Normalize(once))) << name;
  };
  for (const ModelPreset& preset : kModelPresets) {
    JobSpec spec = SpecWith("");
    spec.mutable_model()->set_preset(preset.name);
    expect(spec, preset.name);
  }
  for (const ScheduleRules& rules : kSchedules) {
    JobSpec spec = SpecWith("micro_batch_size: 5");
    spec.mutable_schedule()->set_name(rules.name);
    expect(spec, rules.name);
  }
  expect(SpecWith("eval { interval_steps: 3 early_stop { patience: 1 } } profile {}"), "sections");
}

TEST(NormalizeTest, DefaultsFollowTheFamilyThePrecisionAndTheSchedule) {
  JobSpec spec = SpecWith("model { hidden: 4096 heads: 32 }", kDimensions);
  EXPECT_EQ(Normalize(spec).model().ffn_hidden(), 16384);
  EXPECT_EQ(Normalize(spec).model().rotary_base(), 0);
  spec.mutable_model()->set_family(v1alpha1::FAMILY_LLAMA);
  EXPECT_EQ(Normalize(spec).model().ffn_hidden(), 11008);
  EXPECT_EQ(Normalize(spec).model().rotary_base(), 10000);
  EXPECT_EQ(Normalize(spec).model().kv_heads(), 32);
  EXPECT_TRUE(Normalize(spec).model().has_tied_head());
  EXPECT_FALSE(Normalize(spec).model().tied_head());
  v1alpha1::RotaryScaling* scaling = spec.mutable_model()->mutable_rotary_scaling();
  scaling->set_kind(v1alpha1::RotaryScaling::LINEAR);
  EXPECT_FALSE(Normalize(spec).model().rotary_scaling().has_low_frequency_factor());
  scaling->set_kind(v1alpha1::RotaryScaling::LLAMA3);
  EXPECT_EQ(Normalize(spec).model().rotary_scaling().low_frequency_factor(), 1);
  EXPECT_EQ(Normalize(spec).model().rotary_scaling().high_frequency_factor(), 4);
  EXPECT_EQ(Normalize(Parsed("model { preset: 'llama3-8b' }")).model().rotary_base(), 500000);
  EXPECT_EQ(Normalize(SpecWith("precision: PRECISION_BF16")).parallelism().wire(),
            v1alpha1::PRECISION_BF16);
  const JobSpec hybrid = Normalize(SpecWith("schedule { name: 'domino_hybrid' }"));
  EXPECT_EQ(hybrid.schedule().parameters().splits(), 2);
  EXPECT_THAT(hybrid.schedule().parameters().slice_sizes(), ElementsAre(2, 2));
  const JobSpec column = Normalize(SpecWith("schedule { name: 'domino_col' }"));
  EXPECT_EQ(column.schedule().parameters().splits(), 2);
  EXPECT_EQ(column.schedule().parameters().slices(), 0);
  const JobSpec sizes =
      Normalize(SpecWith("schedule { parameters { slice_sizes: 1 slice_sizes: 3 } }"));
  EXPECT_EQ(sizes.schedule().parameters().slices(), 2);
  EXPECT_THAT(sizes.schedule().parameters().slice_sizes(), ElementsAre(1, 3));
}

// A section that is left out means that something is not done.
TEST(NormalizeTest, FillsOptionalSectionsOnlyWhereTheyAreGiven) {
  const JobSpec spec = Normalize(SpecWith(""));
  EXPECT_FALSE(spec.has_eval());
  EXPECT_FALSE(spec.has_profile());
  EXPECT_FALSE(spec.has_emulated_link());
  const JobSpec measured = Normalize(SpecWith("eval { interval_steps: 5 prefix: 'held' }"));
  EXPECT_EQ(measured.eval().batches(), 10);
  EXPECT_FALSE(measured.eval().has_early_stop());
}

TEST(NormalizeTest, APresetLetsTheSequenceLengthBeOverridden) {
  const JobSpec spec = Normalize(SpecWith("model { sequence_length: 128 }"));
  EXPECT_EQ(Validate(spec), absl::OkStatus());
  EXPECT_EQ(spec.model().sequence_length(), 128);
}

TEST(EvenSlicesTest, LargerSlicesComeFirst) {
  EXPECT_THAT(EvenSlices(4, 2), ElementsAre(2, 2));
  EXPECT_THAT(EvenSlices(7, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(EvenSlices(3, 1), ElementsAre(3));
}

}  // namespace
}  // namespace stretto::spec

// SPDX-License-Identifier: Apache-2.0

// Specs that are accepted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/spec/job/ranks.h"
#include "proto/spec/presets.h"
#include "proto/spec/schedules.h"
#include "tests/proto/spec/job_specs.h"

namespace stretto::spec {
namespace {

using v1alpha1::JobSpec;

TEST(AcceptedTest, WeightsDataAndOptionsInAllTheirForms) {
  for (const char* change :
       {"model { initial_weights: 'hf:models/gpt' }",
        "model { initial_weights: 'llmc:gpt2_124M.bin' }",
        "model { initial_weights: 'hf:a:b' }",
        "checkpoint { resume_from: 'hf:exports/gpt' }",
        "checkpoint { resume_from: 'a/step-1' }",
        "checkpoint { asynchronous: true }",
        "checkpoint { keep_best: true interval_steps: 10 } eval { interval_steps: 5 prefix: 'held' "
        "}",
        "checkpoint { keep_best: true } eval { interval_steps: 5 prefix: 'held' }",
        "checkpoint { resume_from: 'a/best' }",
        "checkpoint { resume_from: 'a@speech' }",
        "checkpoint { resume_from: 'a/step-1@speech' }",
        "tokens: 102400",
        "epochs: 2.5",
        "checkpoint { interval_steps: 5 } sample { interval_steps: 10 prompts: 'a\\nb' prompts: "
        "'c' "
        "tokens: 512 temperature: 0 }",
        "checkpoint { asynchronous: false disabled: true }",
        "model { initial_weights: 'hf:gpt' } checkpoint { resume_from: 'j' }",
        "model { initial_weights: 'hf:gpt' } steps: 0",
        "model { norm_epsilon: 1.2e-38 }",
        "model { norm_epsilon: 1 }",
        "data { prefix: 'llmc:web/train_*.bin' }",
        "eval { interval_steps: 5 prefix: 'held' }",
        "restart {}",
        "restart { max: 0 backoff: 0 on: OUT_OF_MEMORY }",
        "restart { max: 1000 backoff: 3600 }",
        "restart { layouts: { tp_size: 1 } layouts {} }",
        "eval { interval_steps: 5 } data { held_out: 0.25 }",
        "device: DEVICE_CUDA precision: PRECISION_BF16",
        "device: DEVICE_CUDA parallelism { pp_size: 2 tp_size: 2 dp_size: 2 } global_batch_size: 8",
        "device: DEVICE_CUDA parallelism { pp_size: 2 dp_size: 4 tp_size: 1 } model { tied_head: "
        "false } "
        "global_batch_size: 16",
        "device: DEVICE_CUDA parallelism { stages { layers: 3 tp_size: 1 } stages { layers: 3 "
        "tp_size: 2 } }",
        "device: DEVICE_CUDA parallelism { pp_size: 2 } schedule { pipeline { transfer: "
        "TRANSFER_GATHER } }"}) {
    EXPECT_EQ(Validate(Normalize(SpecWith(change))), absl::OkStatus()) << change;
  }
  for (const char* change :
       {"model { rotary_scaling { low_frequency_factor: 2 high_frequency_factor: 1024 } }", ""}) {
    EXPECT_EQ(Validate(Normalize(SpecWith(change, kLlama3))), absl::OkStatus()) << change;
  }
  for (const char* change :
       {"", "model { family: FAMILY_LLAMA }", "model { family: FAMILY_LLAMA kv_heads: 2 }",
        "model { layers: 18 hidden: 65536 heads: 64 vocab_size: 1048576 }",
        "device: DEVICE_CUDA model { hidden: 16384 heads: 64 }",
        "device: DEVICE_CUDA model { hidden: 16448 heads: 64 } precision: PRECISION_BF16"}) {
    EXPECT_EQ(Validate(Normalize(SpecWith(change, kDimensions))), absl::OkStatus()) << change;
  }
  EXPECT_EQ(Validate(Normalize(SpecWith("model { initial_weights: 'hf:gpt' }", kNoSteps))),
            absl::OkStatus());
  EXPECT_EQ(
      Validate(Normalize(SpecWith("data { blend { prefix: 'llmc:b_*' weight: 0.3 } }", kBlend))),
      absl::OkStatus());
}

TEST(AcceptedTest, RestartHasItsDefaults) {
  EXPECT_FALSE(Normalize(SpecWith("")).has_restart());
  const v1alpha1::RestartSpec restart = Normalize(SpecWith("restart {}")).restart();
  EXPECT_EQ(restart.max(), 3);
  EXPECT_EQ(restart.backoff(), 1);
  EXPECT_EQ(restart.on_size(), 4);
  EXPECT_EQ(
      std::count(restart.on().begin(), restart.on().end(), v1alpha1::RestartSpec::OUT_OF_MEMORY),
      0);
}

TEST(AcceptedTest, UnlikeStages) {
  // The stage in the middle has no vocabulary, which 3 does not divide.
  const JobSpec spec = Normalize(SpecWith(
      "model { layers: 4 hidden: 96 heads: 6 ffn_hidden: 192 sequence_length: 64 vocab_size: 256 } "
      "parallelism { tp_size: 2 stages { layers: 1 tp_size: 1 } stages { layers: 2 tp_size: 3 } "
      "stages { layers: 1 } } schedule { pipeline { transfer: TRANSFER_CHAIN } }",
      kNoModel));
  EXPECT_EQ(Validate(spec), absl::OkStatus());
  EXPECT_EQ(spec.parallelism().pp_size(), 3);
  EXPECT_EQ(spec.parallelism().stages(2).tp_size(), 2);
}

// Neither stage has as many replicas as there are shares.
TEST(AcceptedTest, UnlikeReplicas) {
  const JobSpec spec = Normalize(SpecWith(
      "parallelism { dp_size: 6 stages { layers: 3 dp_size: 2 } stages { layers: 2 dp_size: 3 } "
      "stages { layers: 1 } } global_batch_size: 48"));
  EXPECT_EQ(Validate(spec), absl::OkStatus());
  EXPECT_EQ(spec.parallelism().stages(2).dp_size(), 6);
  EXPECT_THAT(ReplicasOf(spec.parallelism()), testing::ElementsAre(2, 3, 6));
  EXPECT_EQ(WorldSizeOf(spec.parallelism()), 11 * spec.parallelism().tp_size());
}

TEST(AcceptedTest, WarmUpsFallUnlessTheyAreAllMicroBatches) {
  for (const char* pipeline : {"warm_up: [ 3, 2, 1 ]", "order: 'eager_1f1b' warm_up: [ 4, 2, 1 ]",
                               "warm_up: [ 4, 4, 1 ]"}) {
    const JobSpec spec = Normalize(SpecWith(
        absl::StrCat("parallelism { pp_size: 3 } global_batch_size: 16 schedule { pipeline { ",
                     pipeline, "} }")));
    EXPECT_EQ(Validate(spec), absl::OkStatus()) << pipeline;
  }
}

TEST(AcceptedTest, ChunksWithTheOrderThatTakesThem) {
  for (const char* delay : {"", "wgrad_delay: WGRAD_DELAY_SEND"}) {
    const JobSpec spec = Normalize(
        SpecWith(absl::StrCat("parallelism { pp_size: 2 chunks_per_stage: 3 } global_batch_size: 8 "
                              "schedule { pipeline { order: 'interleaved_1f1b' ",
                              delay, " } }")));
    EXPECT_EQ(Validate(spec), absl::OkStatus()) << delay;
  }
}

TEST(AcceptedTest, MicroBatchesOfOneSequenceWoven) {
  const JobSpec spec =
      Normalize(SpecWith("micro_batch_size: 1 global_batch_size: 2 schedule { name: 'helix' }"));
  EXPECT_EQ(Validate(spec), absl::OkStatus());
  EXPECT_EQ(spec.schedule().parameters().slices(), 1);
}

// Of a model of six layers.
TEST(AcceptedTest, APlanForTheLayersAndSlicesOfTheJob) {
  const JobSpec spec = Normalize(
      SpecWith("global_batch_size: 8 schedule { name: 'helix' parameters { slices: 2 } "
               "plan: 'weave f0|b0 pace=2\\n f ln1 L0 s1\\n b r.qkv d.fc2 L5\\n b loss' }"));
  EXPECT_EQ(Validate(spec), absl::OkStatus());
}

TEST(AcceptedTest, APlanHasABoundedSize) {
  JobSpec spec = SpecWith("global_batch_size: 8 schedule { name: 'helix' }");
  std::string plan = "weave f0|b0 pace=1\n";
  while (plan.size() < 1 << 20) plan += "  f sum\n";
  plan.resize(1 << 20);
  plan.replace(plan.rfind('\n'), std::string::npos, (1 << 20) - plan.rfind('\n'), ' ');
  spec.mutable_schedule()->set_plan(plan);
  EXPECT_EQ(Validate(Normalize(spec)), absl::OkStatus());
  spec.mutable_schedule()->set_plan(plan + " ");
  EXPECT_EQ(Validate(Normalize(spec)).message(),
            "spec.schedule.plan: found 1048577 bytes, expected at most 1048576");
}

TEST(AcceptedTest, FoldedStages) {
  const JobSpec spec =
      Normalize(SpecWith("global_batch_size: 16 parallelism { pp_size: 3 } "
                         "schedule { name: 'helix' pipeline { order: 'folded' } }"));
  EXPECT_EQ(Validate(spec), absl::OkStatus());
  EXPECT_EQ(spec.parallelism().chunks_per_stage(), 2);
}

TEST(AcceptedTest, EveryPresetAndEverySchedule) {
  for (const ModelPreset& preset : kModelPresets) {
    JobSpec spec = SpecWith("model { dropout: 0.1 }");
    spec.mutable_model()->set_preset(preset.name);
    EXPECT_EQ(Validate(Normalize(spec)), absl::OkStatus()) << preset.name;
  }
  for (const ScheduleRules& rules : kSchedules) {
    JobSpec spec = SpecWith(
        "parallelism { wire: PRECISION_BF16 } "
        "schedule { parameters { sequence_parallel: true recompute: RECOMPUTE_FULL } }");
    spec.mutable_schedule()->set_name(rules.name);
    spec.set_global_batch_size(2 * spec.micro_batch_size());  // two micro-batches to weave
    EXPECT_EQ(Validate(Normalize(spec)), absl::OkStatus()) << rules.name;
  }
}

}  // namespace
}  // namespace stretto::spec

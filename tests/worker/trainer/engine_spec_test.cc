// SPDX-License-Identifier: Apache-2.0

// Between job specs and the engine's: nothing is lost, and the engine builds what the rules accept.
#include "worker/trainer/plan/engine_spec.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/spec/job/normalize.h"
#include "proto/spec/schedules.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::trainer {
namespace {

using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;

v1alpha1::JobSpec JobWith(const char* schedule, const std::string& parameters) {
  v1alpha1::JobSpec spec;
  EXPECT_TRUE(TextFormat::ParseFromString(
      "model { preset: 'llama-tiny' dropout: 0.1 } data { prefix: 'text' } "
      "parallelism { tp_size: 2 } steps: 1 micro_batch_size: 4 global_batch_size: 16",
      &spec));
  spec.mutable_schedule()->set_name(schedule);
  EXPECT_TRUE(
      TextFormat::ParseFromString(parameters, spec.mutable_schedule()->mutable_parameters()));
  return spec;
}

TEST(EngineSpecTest, TheEngineBuildsWhatTheRulesAccept) {
  const std::vector<std::string> parameters = {
      "",
      "slices: 1",
      "slices: 2",
      "slices: 4",
      "slice_sizes: [3, 1]",
      "splits: 1",
      "splits: 4",
      "sequence_parallel: true",
      "recompute: RECOMPUTE_SELECTIVE",
      "recompute: RECOMPUTE_FULL sequence_parallel: true",
      "defer_wgrads: 2",
      "merge_wgrads: 1",
      "merge_wgrads: 2",
      "merge_wgrads: 4 sequence_parallel: true",
      "auto_merge_wgrads: true",
      "slices: 3 defer_wgrads: 1 merge_wgrads: 2 recompute: RECOMPUTE_FULL",
  };
  int accepted = 0;
  for (const ScheduleRules& rules : kSchedules) {
    for (const std::string& text : parameters) {
      const auto spec = EngineSpecFrom(JobWith(rules.name, text));
      if (!spec.ok()) continue;
      ++accepted;
      EXPECT_EQ(BuildPlan(*spec, 0).status(), absl::OkStatus()) << rules.name << " { " << text;
    }
  }
  EXPECT_GT(accepted, 90);
}

TEST(EngineSpecTest, EverySpecOfTheEnginesTestsObeysTheRules) {
  for (const Layout& layout : EverySchedule()) {
    EXPECT_EQ(Validate(SpecOf(layout)), absl::OkStatus()) << Describe(layout);
  }
}

// There and back: the message of a spec made from a message is that message.
TEST(EngineSpecTest, NothingIsLostBetweenAJobsSpecAndTheEngines) {
  std::vector<Layout> layouts = EverySchedule();
  Layout staged = LayoutOf("domino_row");
  staged.pp_size = 2;
  staged.micro_batches = 4;
  staged.warm_up = {3, 1};
  for (WgradDelay delay : {WgradDelay::kNone, WgradDelay::kSend, WgradDelay::kBubble}) {
    staged.wgrad_delay = delay;
    layouts.push_back(staged);
  }
  staged.wgrad_delay = WgradDelay::kNone;
  staged.warm_up = {};
  staged.pipeline = "gpipe";
  layouts.push_back(staged);
  staged.pipeline = "interleaved_1f1b";
  staged.chunks = 2;
  staged.layers = 4;
  layouts.push_back(staged);
  staged.wgrad_delay = WgradDelay::kSend;
  layouts.push_back(staged);
  staged.wgrad_delay = WgradDelay::kNone;
  staged.pipeline = "gpipe";
  staged.chunks = 1;
  staged.transfer = Transfer::kGather;
  staged.stages = {{.layers = 2, .tp_size = 4}, {.layers = 1, .tp_size = 1}};
  staged.layers = 3;
  layouts.push_back(staged);
  staged.dp_size = 4;
  staged.stages[1].dp_size = 2;
  layouts.push_back(staged);
  for (Layout layout : layouts) {
    layout.dropout = 0.1;
    layout.document_mask = true;
    layout.dtype = DType::kBF16;
    layout.wire = DType::kBF16;
    const v1alpha1::JobSpec job = JobSpecOf(SpecOf(layout));
    const auto engine = EngineSpecFrom(job);
    ASSERT_TRUE(engine.ok()) << engine.status() << " " << Describe(layout);
    EXPECT_TRUE(MessageDifferencer::Equals(job, JobSpecOf(*engine)))
        << job.DebugString() << JobSpecOf(*engine).DebugString();
  }
}

TEST(EngineSpecTest, GpusMayComputeAttentionByALibrary) {
  v1alpha1::JobSpec job = JobWith("domino_row", "");
  EXPECT_EQ(EngineSpecFrom(job)->library_attention, LibraryAttention::kNone);
  job.set_device(v1alpha1::DEVICE_CUDA);
  const EngineSpec engine = *EngineSpecFrom(job);
  EXPECT_EQ(engine.library_attention, LibraryAttention::kVarying);
  EXPECT_EQ(EngineSpecFrom(JobSpecOf(engine))->library_attention, LibraryAttention::kVarying);
  EXPECT_EQ(engine.Repeatable().library_attention, LibraryAttention::kNone);
}

// On a CPU no library computes it, so nothing varies anyway.
TEST(EngineSpecTest, ADeterministicJobHasRepeatableAttentionOnGpus) {
  v1alpha1::JobSpec job = JobWith("domino_row", "");
  job.set_deterministic(true);
  EXPECT_EQ(EngineSpecFrom(job)->library_attention, LibraryAttention::kNone);
  job.set_device(v1alpha1::DEVICE_CUDA);
  const EngineSpec engine = *EngineSpecFrom(job);
  EXPECT_EQ(engine.library_attention, LibraryAttention::kRepeatable);
  EXPECT_EQ(EngineSpecFrom(JobSpecOf(engine))->library_attention, LibraryAttention::kRepeatable);
  EXPECT_EQ(engine.Repeatable().library_attention, LibraryAttention::kRepeatable);
}

TEST(EngineSpecTest, ASpecThatWasMadeInAnotherWayIsRefusedInTheSameWords) {
  const auto refusal = [](auto change) {
    EngineSpec spec = SpecOf(LayoutOf("domino_row"));
    change(&spec);
    return std::string(Validate(spec).message());
  };
  EXPECT_EQ(refusal([](EngineSpec*) {}), "");
  EXPECT_EQ(refusal([](EngineSpec* s) { s->model.heads = 3; }),
            "spec.model.heads: found 3, expected a divisor of hidden 8 (and 1 more)");
  EXPECT_EQ(refusal([](EngineSpec* s) { s->tp_size = 3; }),
            "spec.parallelism.tp_size: found 3, expected a divisor of heads 4 (and 2 more)");
  EXPECT_EQ(refusal([](EngineSpec* s) {
              s->schedule.slices = {2, 1};
            }),
            "spec.schedule.parameters.slice_sizes: found sizes that sum to 3, expected "
            "micro_batch_size 2");
  EXPECT_EQ(refusal([](EngineSpec* s) { s->schedule.splits = 2; }),
            "spec.schedule.parameters.splits: found 2, expected nothing, because domino_row takes "
            "only slices, slice_sizes, sequence_parallel, recompute, defer_wgrads, merge_wgrads, "
            "auto_merge_wgrads");
  EXPECT_THAT(refusal([](EngineSpec* s) { s->schedule.name = "rubato"; }),
              ::testing::StartsWith("spec.schedule.name: found \"rubato\", expected one of "));
}

}  // namespace
}  // namespace stretto::trainer

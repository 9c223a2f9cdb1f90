// SPDX-License-Identifier: Apache-2.0
#include "coordinator/planner/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <string>

#include "proto/spec/job/normalize.h"
#include "proto/spec/job/ranks.h"
#include "proto/spec/job/validate.h"
#include "proto/spec/schedules.h"
#include "tests/reference_seconds.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/memory_check.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::planner {
namespace {

using ::testing::HasSubstr;

v1alpha1::JobSpec Spec(const std::string& preset, int tp_size, const std::string& schedule) {
  v1alpha1::JobSpec spec;
  spec.mutable_model()->set_preset(preset);
  spec.mutable_data()->set_prefix("data");
  spec.mutable_parallelism()->set_tp_size(tp_size);
  spec.mutable_schedule()->set_name(schedule);
  spec.set_steps(1);
  spec.set_micro_batch_size(4);
  spec.set_global_batch_size(8);
  spec = spec::Normalize(spec);
  EXPECT_EQ(spec::Validate(spec), absl::OkStatus());
  return spec;
}

v1alpha1::Plan Planned(const v1alpha1::JobSpec& spec) {
  const auto plan = PlanOf(spec);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : v1alpha1::Plan();
}

// As the trainer's check of memory counts them when a rank prepares.
std::map<std::string, int64_t> ArenasOfTrainer(const v1alpha1::JobSpec& spec, Rank rank) {
  v1alpha1::AttachResponse task;
  *task.mutable_assign()->mutable_spec() = spec;
  task.mutable_assign()->set_job_id("job");
  task.set_data_root("/data");
  task.set_checkpoint_root("/checkpoints");
  const auto config = trainer::ConfigFrom(task, rank);
  EXPECT_TRUE(config.ok()) << config.status();
  const auto ranks = trainer::ArenasOf(*config);
  EXPECT_TRUE(ranks.ok()) << ranks.status();
  const ArenaBytes& arenas = ranks->front().arenas;
  std::map<std::string, int64_t> bytes;
  for (size_t i = 0; i < arenas.size(); ++i) {
    if (arenas[i] > 0) bytes[NameOf(static_cast<ArenaClass>(i))] = arenas[i];
  }
  return bytes;
}

std::map<std::string, int64_t> ArenasOfPlan(const v1alpha1::Plan::Rank& rank) {
  std::map<std::string, int64_t> bytes;
  int64_t sum = 0;
  for (const auto& arena : rank.arenas()) {
    bytes[arena.name()] = arena.bytes();
    sum += arena.bytes();
  }
  EXPECT_EQ(sum, rank.bytes());
  return bytes;
}

// A rank stands for its class; here each is planned.
void ExpectEveryRankAsPlanned(const v1alpha1::JobSpec& spec) {
  const std::string& name = spec.schedule().name();
  const v1alpha1::Plan plan = Planned(spec);
  int rank = 0;
  for (const v1alpha1::Plan::Rank& planned : plan.ranks()) {
    EXPECT_EQ(planned.rank(), rank);
    for (int end = rank + planned.count(); rank < end; ++rank) {
      EXPECT_EQ(ArenasOfPlan(planned), ArenasOfTrainer(spec, Rank::Of(rank))) << name;
      const auto program = BuildPlan(*trainer::EngineSpecFrom(spec), Rank::Of(rank));
      EXPECT_EQ(planned.operations(), static_cast<int64_t>(program->program.ops.size()))
          << name << " rank " << rank;
    }
  }
  EXPECT_EQ(rank, 4);
}

TEST(PlanTest, EveryRankOfEveryScheduleHoldsWhatTheTrainerWillCheck) {
  for (const ScheduleRules& rules : kSchedules) {
    v1alpha1::JobSpec spec = Spec("gpt-tiny", 4, rules.name);
    ExpectEveryRankAsPlanned(spec);
    spec.mutable_schedule()->mutable_parameters()->set_sequence_parallel(true);
    // Updates at once, so that parts of the norm, which not all ranks compute, move among
    // gradients.
    spec.mutable_optimizer()->set_clip_norm(0);
    spec.mutable_optimizer()->set_max_skipped_updates(1);
    ExpectEveryRankAsPlanned(spec);
  }
}

TEST(PlanTest, EveryStageIsPlanned) {
  v1alpha1::JobSpec spec = Spec("gpt-tiny", 2, "domino_row");
  spec.mutable_parallelism()->set_pp_size(2);
  spec.set_global_batch_size(8 * spec.micro_batch_size());
  spec = spec::Normalize(spec);
  ExpectEveryRankAsPlanned(spec);
  const v1alpha1::Plan plan = Planned(spec);
  ASSERT_EQ(plan.ranks_size(), 2);
  EXPECT_EQ(plan.ranks(1).stage(), 1);
  EXPECT_NE(plan.ranks(0).bytes(), plan.ranks(1).bytes());
  EXPECT_GT(plan.ranks(0).parameters() * 4, plan.parameters());
}

// Its scratch for attention: cuDNN's form with a fixed order of additions needs more.
TEST(PlanTest, ADeterministicJobNeedsMoreMemoryOnGpus) {
  v1alpha1::JobSpec spec = Spec("llama-tiny", 1, "megatron_sync");
  spec.mutable_model()->set_sequence_length(1024);
  spec.set_precision(v1alpha1::PRECISION_BF16);
  spec.mutable_parallelism()->set_wire(v1alpha1::PRECISION_BF16);
  const auto bytes = [&](v1alpha1::Device device, bool deterministic) {
    spec.set_device(device);
    spec.set_deterministic(deterministic);
    const v1alpha1::Plan::Rank planned = Planned(spec).ranks(0);
    EXPECT_EQ(ArenasOfPlan(planned), ArenasOfTrainer(spec, Rank::Of(0)));
    return planned.bytes();
  };
  const int64_t varying = bytes(v1alpha1::DEVICE_CUDA, false);
  EXPECT_GT(bytes(v1alpha1::DEVICE_CUDA, true), varying);
  EXPECT_EQ(bytes(v1alpha1::DEVICE_CPU, true), bytes(v1alpha1::DEVICE_CPU, false));
}

// Parts of a bucket begin and end in different parameters, so alignment differs.
TEST(PlanTest, OfReplicasThatShareUpdatesTheLargestIsPlanned) {
  bool another_than_the_first = false;
  for (int replicas : {3, 4, 5}) {
    v1alpha1::JobSpec spec = Spec("gpt-tiny", 2, "domino_row");
    // Biases that end within a line of the arena.
    spec.mutable_model()->clear_preset();
    spec.mutable_model()->set_hidden(32);
    spec.mutable_model()->set_ffn_hidden(100);
    spec.mutable_parallelism()->set_pp_size(2);
    spec.mutable_parallelism()->set_dp_size(replicas);
    spec.mutable_parallelism()->set_zero(1);
    spec.set_precision(v1alpha1::PRECISION_BF16);
    spec.mutable_parallelism()->set_wire(v1alpha1::PRECISION_BF16);
    spec.set_global_batch_size(2 * replicas * spec.micro_batch_size());
    spec = spec::Normalize(spec);
    const v1alpha1::Plan plan = Planned(spec);
    ASSERT_EQ(plan.ranks_size(), 2);
    for (const v1alpha1::Plan::Rank& planned : plan.ranks()) {
      ASSERT_EQ(planned.count(), replicas * 2);
      int64_t first = 0, most = 0;
      for (int rank = planned.rank(); rank < planned.rank() + planned.count(); ++rank) {
        int64_t bytes = 0;
        for (const auto& [name, arena] : ArenasOfTrainer(spec, Rank::Of(rank))) bytes += arena;
        if (rank == planned.rank()) first = bytes;
        most = std::max(most, bytes);
      }
      another_than_the_first = another_than_the_first || most > first;
      EXPECT_EQ(planned.bytes(), most) << replicas << " replicas, stage " << planned.stage();
    }
  }
  EXPECT_TRUE(another_than_the_first);
}

// Of 10,240 ranks one of each stage is planned. A release build takes 0.4 s and 33 MB.
TEST(PlanTest, ALargeJobIsPlannedInTwoSecondsAndAGigabyte) {
  v1alpha1::JobSpec spec = Spec("llama3-70b", 8, "domino_row");
  spec.mutable_parallelism()->set_pp_size(16);
  spec.mutable_parallelism()->set_dp_size(80);
  spec.mutable_parallelism()->set_zero(1);
  spec.set_global_batch_size(64 * 80 * spec.micro_batch_size());
  spec = spec::Normalize(spec);
  v1alpha1::Plan plan;
  EXPECT_LT(ReferenceSeconds(kBoundSeconds, [&] { plan = Planned(spec); }), kBoundSeconds);
  rusage usage = {};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 1'000'000);  // KiB
  ASSERT_EQ(plan.ranks_size(), 16);
  int ranks = 0;
  for (const v1alpha1::Plan::Rank& planned : plan.ranks()) ranks += planned.count();
  EXPECT_EQ(ranks, 10240);
  // The first stage keeps most micro-batches.
  EXPECT_GT(plan.ranks(1).bytes(), plan.ranks(14).bytes());
}

TEST(PlanTest, AStageOfSeveralChunksIsPlanned) {
  v1alpha1::JobSpec spec = Spec("gpt-10m", 2, "domino_row");
  spec.mutable_parallelism()->set_pp_size(2);
  spec.set_global_batch_size(8 * spec.micro_batch_size());
  const v1alpha1::Plan plain = Planned(spec::Normalize(spec));
  spec.mutable_parallelism()->set_chunks_per_stage(3);
  spec.mutable_schedule()->mutable_pipeline()->set_order("interleaved_1f1b");
  spec = spec::Normalize(spec);
  ExpectEveryRankAsPlanned(spec);
  // As many layers, of which more micro-batches are in flight.
  const v1alpha1::Plan plan = Planned(spec);
  for (int stage : {0, 1}) {
    EXPECT_EQ(plan.ranks(stage).parameters(), plain.ranks(stage).parameters());
    EXPECT_GT(plan.ranks(stage).bytes(), plain.ranks(stage).bytes());
  }
}

// Ranks of one stage may send differently; the largest is planned.
TEST(PlanTest, TheLargestRankOfUnlikeStagesIsPlanned) {
  v1alpha1::JobSpec spec = Spec("gpt-tiny", 1, "domino_row");
  for (int tp_size : {4, 1}) {
    v1alpha1::StageSpec& stage = *spec.mutable_parallelism()->add_stages();
    stage.set_layers(1);
    stage.set_tp_size(tp_size);
  }
  spec.mutable_parallelism()->set_pp_size(2);
  spec.set_global_batch_size(8 * spec.micro_batch_size());
  spec = spec::Normalize(spec);
  const v1alpha1::Plan plan = Planned(spec);
  ASSERT_EQ(plan.ranks_size(), 2);
  EXPECT_EQ(plan.ranks(0).count(), 4);
  EXPECT_EQ(plan.ranks(1).rank(), 4);
  int64_t most = 0;
  for (int rank = 0; rank < 4; ++rank) {
    int64_t bytes = 0;
    for (const auto& [name, arena] : ArenasOfTrainer(spec, Rank::Of(rank))) bytes += arena;
    most = std::max(most, bytes);
  }
  EXPECT_EQ(plan.ranks(0).bytes(), most);
  EXPECT_EQ(ArenasOfPlan(plan.ranks(1)), ArenasOfTrainer(spec, 4));
  EXPECT_GT(plan.ranks(1).parameters(), 2 * plan.ranks(0).parameters());
}

// Two of four replicas send what a replica of the next stage has in its first slice, and the others
// what it has in its second.
TEST(PlanTest, TheLargestRankOfUnlikeReplicasIsPlanned) {
  v1alpha1::JobSpec spec = Spec("gpt-tiny", 1, "domino_row");
  v1alpha1::ParallelismSpec& parallelism = *spec.mutable_parallelism();
  for (int replicas : {4, 2}) {
    v1alpha1::StageSpec& stage = *parallelism.add_stages();
    stage.set_layers(1);
    stage.set_dp_size(replicas);
  }
  parallelism.set_dp_size(4);
  parallelism.set_pp_size(2);
  spec.mutable_schedule()->mutable_parameters()->clear_slice_sizes();
  spec.mutable_schedule()->mutable_parameters()->add_slice_sizes(1);
  spec.mutable_schedule()->mutable_parameters()->add_slice_sizes(3);
  spec.set_micro_batch_size(4);
  spec.set_global_batch_size(8 * 4 * spec.micro_batch_size());
  for (int zero : {0, 1}) {
    parallelism.set_zero(zero);
    const v1alpha1::JobSpec job = spec::Normalize(spec);
    const v1alpha1::Plan plan = Planned(job);
    ASSERT_EQ(plan.ranks_size(), 2);
    EXPECT_EQ(plan.ranks(0).count(), 4);
    EXPECT_EQ(plan.ranks(1).count(), 2);
    EXPECT_EQ(plan.ranks(1).rank(), 4);
    for (int stage : {0, 1}) {
      int64_t most = 0;
      for (int rank = 4 * stage; rank < 4 + 2 * stage; ++rank) {
        int64_t bytes = 0;
        for (const auto& [name, arena] : ArenasOfTrainer(job, Rank::Of(rank))) bytes += arena;
        most = std::max(most, bytes);
      }
      EXPECT_EQ(plan.ranks(stage).bytes(), most) << stage << ", zero " << zero;
    }
  }
}

TEST(PlanTest, AProfileCountsTheProgramsThatItRuns) {
  v1alpha1::JobSpec spec = Spec("gpt-tiny", 2, "domino_row");
  spec.mutable_schedule()->mutable_parameters()->set_recompute(v1alpha1::RECOMPUTE_FULL);
  const int64_t plain = Planned(spec).ranks(0).bytes();
  spec.mutable_profile()->set_steps(1);
  const v1alpha1::Plan plan = Planned(spec);
  EXPECT_GT(plan.ranks(0).bytes(), plain);
  EXPECT_EQ(ArenasOfPlan(plan.ranks(0)), ArenasOfTrainer(spec, 0));
}

// It works in the memory of the step, but for what goes in and out.
TEST(PlanTest, AnEvaluationTakesHardlyMore) {
  for (const ScheduleRules& rules : kSchedules) {
    v1alpha1::JobSpec spec = Spec("gpt-tiny", 4, rules.name);
    const int64_t plain = Planned(spec).ranks(0).bytes();
    spec.mutable_eval()->set_interval_steps(10);
    spec.mutable_eval()->set_batches(2);
    spec.mutable_eval()->set_prefix("held-out");
    ExpectEveryRankAsPlanned(spec);
    // Of the two batches, which run together.
    const int64_t tokens = int64_t{2} * spec.micro_batch_size() * spec.model().sequence_length();
    const int64_t more = Planned(spec).ranks(0).bytes() - plain;
    EXPECT_GE(more, tokens * (2 * 4 + 4)) << rules.name;  // tokens, targets; losses
    EXPECT_LE(more, tokens * (2 * 4 + 4) + 1024) << rules.name;
  }
}

// Each byte of the checkpoint is copied by the rank that writes it.
TEST(PlanTest, CopiesForCheckpointsAreOnTop) {
  v1alpha1::JobSpec spec = Spec("gpt-tiny", 2, "domino_row");
  spec.mutable_parallelism()->set_pp_size(2);
  spec.mutable_parallelism()->set_dp_size(2);
  spec.set_global_batch_size(4 * spec.micro_batch_size());
  spec = spec::Normalize(spec);
  const v1alpha1::Plan without = Planned(spec);
  spec.set_steps(2);
  spec.mutable_checkpoint()->set_interval_steps(1);
  for (const v1alpha1::Plan::Rank& planned : without.ranks())
    EXPECT_EQ(planned.checkpoint_copy_bytes(), 0);
  for (bool asked : {false, true}) {
    if (asked) spec.mutable_checkpoint()->set_asynchronous(true);
    const v1alpha1::Plan plan = Planned(spec);
    int64_t copied = 0;
    for (int stage : {0, 1}) {
      EXPECT_EQ(plan.ranks(stage).bytes(), without.ranks(stage).bytes());
      copied += plan.ranks(stage).count() * plan.ranks(stage).checkpoint_copy_bytes();
    }
    // A master and two moments, 4 bytes each; a mean is rounded up.
    EXPECT_GE(copied, plan.parameters() * 12);
    EXPECT_LT(copied, plan.parameters() * 12 + 8);
  }
  spec.mutable_checkpoint()->set_asynchronous(false);
  EXPECT_EQ(Planned(spec).ranks(0).checkpoint_copy_bytes(), 0);
}

TEST(PlanTest, AutoMergeIsPlannedAtItsSmallest) {
  v1alpha1::JobSpec spec = Spec("gpt-tiny", 2, "domino_row");
  EXPECT_FALSE(Planned(spec).smallest());
  spec.mutable_schedule()->mutable_parameters()->set_auto_merge_wgrads(true);
  const v1alpha1::Plan left = Planned(spec);
  EXPECT_TRUE(left.smallest());
  spec.mutable_schedule()->mutable_parameters()->set_auto_merge_wgrads(false);
  spec.mutable_schedule()->mutable_parameters()->set_merge_wgrads(1);
  EXPECT_EQ(left.ranks(0).bytes(), Planned(spec).ranks(0).bytes());
}

// 174.6e9 parameters, 16 bytes each over eight ranks beside what activations take; nothing of it is
// allocated.
TEST(PlanTest, AHugeModelIsPlannedWithoutMemory) {
  const v1alpha1::Plan plan = Planned(Spec("gpt3-175b", 8, "domino_row"));
  EXPECT_NEAR(static_cast<double>(plan.parameters()), 174.6e9, 0.1e9);
  ASSERT_EQ(plan.ranks_size(), 1);
  EXPECT_EQ(plan.ranks(0).count(), 8);
  EXPECT_GT(plan.ranks(0).bytes(), plan.parameters() * 16 / 8);
  EXPECT_GT(plan.ranks(0).parameters() * 8, plan.parameters());
  // 6 L (4 h^2 + 2 h 4h) + 6 h v + 6 L h S
  EXPECT_DOUBLE_EQ(plan.flops_per_token(),
                   6.0 * 96 * 12 * 12288 * 12288 + 6.0 * 12288 * 50257 + 6.0 * 96 * 12288 * 2048);
}

TEST(PlanTest, ASpecThatCannotBeNamesTheField) {
  v1alpha1::JobSpec spec = Spec("gpt-tiny", 2, "domino_row");
  spec.mutable_schedule()->set_name("domino_diagonal");
  EXPECT_THAT(std::string(PlanOf(spec).status().message()),
              HasSubstr("spec.schedule.name: found \"domino_diagonal\""));
  spec = Spec("gpt-tiny", 2, "domino_row");
  spec.set_global_batch_size(9);
  EXPECT_EQ(PlanOf(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ProgramTextTest, IsTheProgramThatTheRankWillRun) {
  const v1alpha1::JobSpec spec = Spec("gpt-tiny", 2, "domino_row");
  const auto text = ProgramText(spec, 1);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, Print(BuildPlan(*trainer::EngineSpecFrom(spec), 1)->program));
  EXPECT_EQ(ProgramText(spec, 2).status(),
            absl::InvalidArgumentError("--program: found rank 2, expected 0 to 1"));
}

}  // namespace
}  // namespace stretto::planner

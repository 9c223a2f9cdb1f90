// SPDX-License-Identifier: Apache-2.0
#include "coordinator/planner/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "proto/spec/job/normalize.h"
#include "proto/spec/job/validate.h"
#include "proto/spec/schedules.h"
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

// All ranks are taken from the plan of the first; here each is planned.
void ExpectEveryRankAsPlanned(const v1alpha1::JobSpec& spec) {
  const std::string& name = spec.schedule().name();
  const v1alpha1::Plan plan = Planned(spec);
  ASSERT_EQ(plan.ranks_size(), 4);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(plan.ranks(rank).rank(), rank);
    EXPECT_EQ(ArenasOfPlan(plan.ranks(rank)), ArenasOfTrainer(spec, Rank::Of(rank))) << name;
    const auto program = BuildPlan(*trainer::EngineSpecFrom(spec), Rank::Of(rank));
    EXPECT_EQ(plan.ranks(rank).operations(), static_cast<int64_t>(program->program.ops.size()))
        << name << " rank " << rank;
  }
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
  EXPECT_EQ(plan.ranks(0).bytes(), plan.ranks(1).bytes());
  EXPECT_NE(plan.ranks(1).bytes(), plan.ranks(2).bytes());
  EXPECT_GT(plan.ranks(0).parameters() * 4, plan.parameters());
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
  EXPECT_EQ(plan.ranks_size(), 8);
  EXPECT_GT(plan.ranks(7).bytes(), plan.parameters() * 16 / 8);
  EXPECT_GT(plan.ranks(7).parameters() * 8, plan.parameters());
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

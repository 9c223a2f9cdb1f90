// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/commands/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "coordinator/cli/text/profile_text.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1alpha1::Job JobOf(const char* name, const char* schedule) {
  v1alpha1::Job job;
  job.set_name(std::string("jobs/") + name);
  job.mutable_spec()->mutable_schedule()->set_name(schedule);
  job.mutable_spec()->mutable_parallelism()->set_tp_size(2);
  return job;
}

v1alpha1::Job Hybrid() {
  v1alpha1::Job job = JobOf("hybrid", "domino_hybrid");
  v1alpha1::ScheduleParameters& parameters =
      *job.mutable_spec()->mutable_schedule()->mutable_parameters();
  parameters.add_slice_sizes(2);
  parameters.add_slice_sizes(1);
  parameters.set_splits(2);
  parameters.set_sequence_parallel(true);
  return job;
}

TEST(CompareTest, ScheduleCarriesItsPiecesAndOptionsHaveALine) {
  const std::string text =
      CompareTable({FiguresOf(JobOf("sync", "megatron_sync"), {}), FiguresOf(Hybrid(), {})});
  EXPECT_THAT(text, HasSubstr("schedule         megatron_sync  domino_hybrid[2+1]/2\n"
                              "layout                    tp 2                  tp 2\n"
                              "options                      -     sequence parallel\n"));
}

TEST(CompareTest, AScheduleWithAPlanOfItsOwnIsMarked) {
  v1alpha1::Job planned = JobOf("planned", "helix");
  planned.mutable_spec()->mutable_schedule()->set_plan("weave f0|b0 pace=1\n");
  EXPECT_THAT(CompareTable({FiguresOf(JobOf("plain", "helix"), {}), FiguresOf(planned, {})}),
              HasSubstr("helix  helix+plan\n"));
}

TEST(CompareTest, StagesAndTheirOrderAreInTheLayout) {
  std::vector<RunFigures> runs;
  for (const char* order : {"1f1b", "gpipe"}) {
    v1alpha1::Job job = JobOf(order, "megatron_sync");
    job.mutable_spec()->mutable_parallelism()->set_pp_size(4);
    job.mutable_spec()->mutable_parallelism()->set_dp_size(2);
    job.mutable_spec()->mutable_schedule()->mutable_pipeline()->set_order(order);
    runs.push_back(FiguresOf(job, {}));
  }
  EXPECT_THAT(CompareTable(runs),
              HasSubstr("layout           tp 2, pp 4 1f1b, dp 2  tp 2, pp 4 gpipe, dp 2\n"));
  EXPECT_EQ(CompareDocument(runs)["runs"][1]["layout"], "tp 2, pp 4 gpipe, dp 2");
}

TEST(CompareTest, OptionsThatNoRunHasAreLeftOut) {
  EXPECT_THAT(CompareTable({FiguresOf(JobOf("sync", "megatron_sync"), {})}),
              Not(HasSubstr("options")));
}

TEST(CompareTest, HeldOutLossesHaveALineWhereThereAreSome) {
  v1alpha1::Job job = JobOf("sync", "megatron_sync");
  job.mutable_progress()->mutable_last_evaluation()->set_loss(2.5);
  const std::vector<RunFigures> runs = {FiguresOf(job, {}), FiguresOf(Hybrid(), {})};
  EXPECT_THAT(CompareTable(runs),
              HasSubstr("\nheld-out loss           2.5000                     -\n"));
  EXPECT_THAT(CompareTable({runs[1]}), Not(HasSubstr("held-out")));
  const auto json = CompareDocument(runs);
  EXPECT_EQ(json["runs"][0]["held_out_loss"], 2.5);
  EXPECT_TRUE(json["runs"][1]["held_out_loss"].is_null());
}

v1alpha1::StepReport Step(int64_t number, double seconds) {
  v1alpha1::StepReport step;
  step.set_step(number);
  step.set_wall_seconds(seconds);
  step.set_tokens(100);
  step.mutable_ledger()->set_wall_seconds(seconds);
  return step;
}

v1alpha1::Job Profiled(const char* name, double ideal, double spread) {
  v1alpha1::Job job = JobOf(name, "megatron_sync");
  job.mutable_profile()->set_t_ideal_step(ideal);
  job.mutable_profile()->set_t_comm(0.1);
  job.mutable_profile()->set_t_serial(1);
  job.mutable_profile()->set_spread(spread);
  return job;
}

TEST(IdealTest, RunsOfOneModelLinkAndLayoutShareTheLeast) {
  v1alpha1::Job other = Profiled("c", 0.2, 0);
  other.mutable_spec()->mutable_emulated_link()->set_gigabits_per_second(1);
  v1alpha1::Job sliced = Profiled("b", 0.5, 0);
  sliced.mutable_spec()->mutable_schedule()->set_name("domino_row");
  sliced.mutable_spec()->mutable_schedule()->mutable_parameters()->set_slices(2);
  const auto ideals = IdealsOf({Profiled("a", 0.4, 0.02), sliced, other});
  EXPECT_DOUBLE_EQ(ideals[0].seconds, 0.4);
  EXPECT_DOUBLE_EQ(ideals[1].seconds, 0.4);
  EXPECT_NEAR(ideals[0].spread, 0.25, 1e-12);
  EXPECT_DOUBLE_EQ(ideals[2].seconds, 0.2);
  EXPECT_TRUE(std::isnan(ideals[2].spread));
}

v1alpha1::Job Placed(v1alpha1::Job job, const std::vector<std::string>& workers) {
  for (const std::string& worker : workers) {
    v1alpha1::RankPlacement& placed = *job.add_placement();
    placed.set_rank(job.placement_size() - 1);
    placed.set_worker("workers/" + worker);
  }
  return job;
}

// Within one node collectives cross its memory, between nodes the network.
TEST(IdealTest, RunsWhoseRanksShareOtherWorkersHaveBoundsOfTheirOwn) {
  const auto ideals = IdealsOf({Placed(Profiled("within", 0.2, 0), {"a", "a", "a", "a"}),
                                Placed(Profiled("across", 0.9, 0), {"a", "a", "b", "b"}),
                                Placed(Profiled("dealt", 0.7, 0), {"a", "b", "a", "b"}),
                                Placed(Profiled("elsewhere", 0.8, 0), {"d", "d", "c", "c"}),
                                Placed(Profiled("inside", 0.3, 0), {"b", "b", "b", "b"})});
  std::vector<double> seconds;
  for (const IdealStep& ideal : ideals) seconds.push_back(ideal.seconds);
  EXPECT_THAT(seconds, ::testing::ElementsAre(0.2, 0.8, 0.7, 0.8, 0.2));
}

// A restart may have taken another of the layouts that the spec lists.
TEST(IdealTest, TheLayoutIsThatOfTheNewestAttempt) {
  v1alpha1::Job whole = Profiled("a", 0.4, 0);
  whole.mutable_spec()->mutable_parallelism()->set_tp_size(4);
  whole.mutable_spec()->mutable_restart()->add_layouts()->set_tp_size(2);
  v1alpha1::Job shrunk = whole;
  shrunk.mutable_profile()->set_t_ideal_step(0.6);
  shrunk.add_attempts()->set_layout(1);
  const auto ideals = IdealsOf({whole, shrunk});
  EXPECT_DOUBLE_EQ(ideals[0].seconds, 0.4);
  EXPECT_DOUBLE_EQ(ideals[1].seconds, 0.6);
}

TEST(CompareTest, TheLinkTellsHowManyWorkersItJoins) {
  v1alpha1::Job paced = JobOf("paced", "s");
  paced.mutable_spec()->mutable_emulated_link()->set_gigabits_per_second(1);
  EXPECT_EQ(FiguresOf(JobOf("waits", "s"), {}).link, "unpaced");
  EXPECT_EQ(FiguresOf(Placed(JobOf("within", "s"), {"a", "a"}), {}).link, "unpaced");
  EXPECT_EQ(FiguresOf(Placed(JobOf("across", "s"), {"a", "b", "a"}), {}).link,
            "unpaced, 2 workers");
  EXPECT_EQ(FiguresOf(Placed(paced, {"a", "b"}), {}).link, "1 Gbit/s emulated link, 2 workers");
}

// Both change what an unsliced step computes; masked attention depends on the documents as well.
TEST(IdealTest, MaskedAndDeterministicRunsHaveBoundsOfTheirOwn) {
  v1alpha1::Job other_text = Profiled("b", 0.5, 0), masked = Profiled("c", 0.2, 0);
  other_text.mutable_spec()->mutable_data()->set_prefix("letters");
  masked.mutable_spec()->mutable_data()->set_document_mask(true);
  v1alpha1::Job masked_letters = masked, deterministic = Profiled("d", 0.6, 0);
  masked_letters.mutable_profile()->set_t_ideal_step(0.1);
  masked_letters.mutable_spec()->mutable_data()->set_prefix("letters");
  deterministic.mutable_spec()->set_deterministic(true);
  const auto ideals =
      IdealsOf({Profiled("a", 0.4, 0), other_text, masked, masked_letters, deterministic});
  std::vector<double> seconds;
  for (const IdealStep& ideal : ideals) seconds.push_back(ideal.seconds);
  EXPECT_THAT(seconds, ::testing::ElementsAre(0.4, 0.4, 0.2, 0.1, 0.6));
}

TEST(IdealTest, ADisturbedProfileIsNoBound) {
  v1alpha1::Job preempted = Profiled("c", 0.3, 0);
  preempted.mutable_profile()->set_preempted_share(0.06);
  const auto ideals = IdealsOf({Profiled("a", 0.4, 0.1), Profiled("b", 0.2, 0.101), preempted});
  for (const IdealStep& ideal : ideals) EXPECT_DOUBLE_EQ(ideal.seconds, 0.4);
  EXPECT_EQ(Disturbance(preempted.profile()), "6.0 % without a CPU");
  EXPECT_TRUE(std::isnan(IdealsOf({preempted})[0].seconds));
  EXPECT_TRUE(std::isnan(IdealsOf({JobOf("none", "megatron_sync")})[0].seconds));
}

TEST(CompareTest, ADisturbedProfileIsMarkedAndNotUsed) {
  const std::vector<v1alpha1::StepReport> steps = {Step(1, 9), Step(2, 0.8)};
  const std::string text = CompareTable(
      {FiguresOf(Profiled("a", 0.4, 0.01), steps), FiguresOf(Profiled("b", 0.7, 0.42), steps)});
  EXPECT_THAT(text, HasSubstr("\nt_ideal_step            400.0 ms                         -\n"));
  EXPECT_THAT(text, HasSubstr("\nstep / ideal               2.000                         -\n"));
  EXPECT_THAT(text, HasSubstr("\ndisturbed profile              -  repetitions 42.0 % apart\n"));
  EXPECT_THAT(text, Not(HasSubstr("hidden_saved")));
}

TEST(CompareTest, TheIdealHasItsSpreadBesideIt) {
  RunFigures run = FiguresOf(Profiled("a", 0.4, 0.01), {Step(1, 1)});
  EXPECT_THAT(CompareTable({run}), HasSubstr("  400.0 ms\n"));
  run.ideal = {.seconds = 0.4, .spread = 0.04};
  EXPECT_THAT(CompareTable({run}), HasSubstr("  400.0 ms +4.0 %\n"));
}

TEST(CompareTest, WhatIsNotKnownIsNoNumber) {
  const RunFigures waiting = FiguresOf(JobOf("waiting", "megatron_sync"), {});
  const std::string text = CompareTable({waiting});
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("0.0 ms")));
  const auto json = CompareDocument({waiting});
  for (const char* figure : {"first_loss", "last_loss", "tokens_per_second", "step_seconds_p50",
                             "submit_to_first_step_seconds", "t_ideal_step_least"}) {
    EXPECT_TRUE(json["runs"][0][figure].is_null()) << figure;
  }
}

// The means are of the sum that a coordinator keeps, so a restart of it changes nothing.
TEST(CompareTest, PreemptedTimeIsBesideTheWallClock) {
  v1alpha1::Job job = JobOf("a", "s");
  v1alpha1::Ledger& ledger = *job.mutable_progress()->mutable_ledger();
  ledger.set_steps(4);
  ledger.set_wall_seconds(2);
  EXPECT_THAT(CompareTable({FiguresOf(job, {})}), HasSubstr("\nwall             500.0 ms\n"));
  EXPECT_THAT(CompareTable({FiguresOf(job, {})}), HasSubstr("\npreempted               -\n"));
  ledger.set_preempted_seconds(0.5);
  const RunFigures run = FiguresOf(job, {});
  EXPECT_THAT(CompareTable({run}), HasSubstr("\npreempted        125.0 ms\n"));
  EXPECT_EQ(CompareDocument({run})["runs"][0]["ledger"]["preempted_seconds"], 0.125);
}

TEST(CompareTest, JsonHasThemAlways) {
  const auto json =
      CompareDocument({FiguresOf(JobOf("sync", "megatron_sync"), {}), FiguresOf(Hybrid(), {})});
  EXPECT_EQ(json["runs"][0]["options"], "");
  EXPECT_EQ(json["runs"][1]["schedule"], "domino_hybrid[2+1]/2");
  EXPECT_EQ(json["runs"][1]["options"], "sequence parallel");
}

}  // namespace
}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/commands/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1alpha1::Job JobOf(const char* name, const char* schedule) {
  v1alpha1::Job job;
  job.set_name(std::string("jobs/") + name);
  job.mutable_spec()->mutable_schedule()->set_name(schedule);
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
                              "options                      -     sequence parallel\n"));
}

TEST(CompareTest, AScheduleWithAPlanOfItsOwnIsMarked) {
  v1alpha1::Job planned = JobOf("planned", "helix");
  planned.mutable_spec()->mutable_schedule()->set_plan("weave f0|b0 pace=1\n");
  EXPECT_THAT(CompareTable({FiguresOf(JobOf("plain", "helix"), {}), FiguresOf(planned, {})}),
              HasSubstr("helix  helix+plan\n"));
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
  const auto json = nlohmann::json::parse(CompareJson(runs));
  EXPECT_EQ(json["runs"][0]["held_out_loss"], 2.5);
  EXPECT_TRUE(json["runs"][1]["held_out_loss"].is_null());
}

TEST(CompareTest, JsonHasThemAlways) {
  const auto json = nlohmann::json::parse(
      CompareJson({FiguresOf(JobOf("sync", "megatron_sync"), {}), FiguresOf(Hybrid(), {})}));
  EXPECT_EQ(json["runs"][0]["options"], "");
  EXPECT_EQ(json["runs"][1]["schedule"], "domino_hybrid[2+1]/2");
  EXPECT_EQ(json["runs"][1]["options"], "sequence parallel");
}

}  // namespace
}  // namespace stretto::cli

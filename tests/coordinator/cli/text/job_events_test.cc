// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/job_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/cli/text/job_text.h"
#include "tests/coordinator/cli/conditions.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using v1alpha1::Condition;
using v1alpha1::Job;

Job FailedJob() {
  Job job;
  job.set_name("jobs/gpt");
  job.set_state(Job::FAILED);
  job.mutable_create_time()->set_seconds(1000);
  job.mutable_start_time()->set_seconds(1003);
  job.mutable_end_time()->set_seconds(1090);
  AddCondition(&job, "Succeeded", Condition::FALSE, 1090, "RankFailed", "rank 1\nof worker-2");
  AddCondition(&job, "Scheduled", Condition::TRUE, 1001, "", "");
  AddCondition(&job, "Checkpointed", Condition::TRUE, 1050, "Saved", "step-00000010");
  job.mutable_first_failure()->set_rank(1);
  job.mutable_first_failure()->set_signal(9);
  job.mutable_first_failure()->set_last_operation("18 comm.tp all_reduce");
  job.mutable_first_failure()->mutable_time()->set_seconds(1089);
  return job;
}

TEST(JobEventsTest, TellsWhatTheJobKeepsInTheOrderOfTime) {
  EXPECT_EQ(EventTable(EventsOf(FailedJob(), FailureShown::kHere)),
            "TIME                     AFTER  EVENT\n"
            "1970-01-01 00:16:40 UTC      -  created\n"
            "1970-01-01 00:16:41 UTC   1.0s  Scheduled\n"
            "1970-01-01 00:16:43 UTC   3.0s  first rank prepared\n"
            "1970-01-01 00:17:30 UTC  50.0s  Checkpointed, Saved\n"
            "1970-01-01 00:18:09 UTC  89.0s  rank 1 was killed by signal 9 (Killed)\n"
            "1970-01-01 00:18:10 UTC  90.0s  Succeeded FALSE, RankFailed: rank 1\n"
            "1970-01-01 00:18:10 UTC  90.0s  ended FAILED\n");
}

TEST(JobEventsTest, ACheckpointsConditionNamesNoneForItsTimeIsThatOfTheFirst) {
  Job job;
  AddCondition(&job, "Checkpointed", Condition::TRUE, 5, "Saved", "step-00000090");
  EXPECT_EQ(EventsOf(job, FailureShown::kHere)[0].text, "Checkpointed, Saved");
}

TEST(JobEventsTest, AFailureThatIsShownAboveHasNoMessage) {
  Job job = FailedJob();
  job.mutable_first_failure()->set_message("killed by signal 9 for memory");
  EXPECT_EQ(EventsOf(job, FailureShown::kHere)[4].text, "rank 1: killed by signal 9 for memory");
  EXPECT_EQ(EventsOf(job, FailureShown::kAbove)[4].text, "rank 1 was killed by signal 9 (Killed)");
}

TEST(JobEventsTest, WhatHasNoTimeIsNoEvent) {
  Job job;
  AddCondition(&job, "Scheduled", Condition::UNKNOWN, 0, "", "");
  job.mutable_first_failure()->set_rank(1);
  EXPECT_TRUE(EventsOf(job, FailureShown::kHere).empty());
  EXPECT_THAT(DescribeJob(job, absl::FromUnixSeconds(1100), false), Not(HasSubstr("EVENT")));
}

TEST(JobEventsTest, AreOneLineEachWithoutTerminalControl) {
  Job job;
  AddCondition(&job, "T", Condition::TRUE, 5, "R", "a\x1b[2J\nb");
  ASSERT_EQ(EventsOf(job, FailureShown::kHere).size(), 1u);
  EXPECT_EQ(EventsOf(job, FailureShown::kHere)[0].text, "T, R: a?[2J");
}

TEST(JobEventsTest, DescribeShowsThemAfterTheConditions) {
  const std::string text = DescribeJob(FailedJob(), absl::FromUnixSeconds(1100), false);
  const size_t conditions = text.find("CONDITION "), events = text.find("  EVENT\n");
  ASSERT_NE(conditions, std::string::npos);
  ASSERT_NE(events, std::string::npos);
  EXPECT_LT(conditions, events);
  EXPECT_THAT(text, HasSubstr("50.0s  Checkpointed, Saved\n"));
}

}  // namespace
}  // namespace stretto::cli

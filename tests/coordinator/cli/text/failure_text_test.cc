// SPDX-License-Identifier: Apache-2.0

// What a person reads about the first failure of a job, and where.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "coordinator/cli/text/job_text.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using v1alpha1::Job;

TEST(SummaryTest, NamesTheFirstFailure) {
  Job job;
  job.set_state(Job::FAILED);
  v1alpha1::FirstFailure& failure = *job.mutable_first_failure();
  failure.set_rank(1);
  failure.set_worker("workers/worker-2");
  failure.set_signal(9);
  failure.set_step(12);
  failure.set_phase("backward");
  failure.set_last_operation("18 comm.tp all_reduce L3.fc2 fwd mb0 s0");
  EXPECT_EQ(FailureText(failure),
            "rank 1 on worker-2 was killed by signal 9 (Killed) at step 12, backward\n"
            "  last operation: 18 comm.tp all_reduce L3.fc2 fwd mb0 s0");
  EXPECT_THAT(Summary(job, false), HasSubstr("rank 1 on worker-2 was killed"));
  failure.set_message("pid 7 crashed with signal 9 (Killed)");
  EXPECT_THAT(FailureText(failure),
              StartsWith("rank 1 on worker-2 at step 12, backward: pid 7 crashed with signal 9"));
  failure.set_signal(0);
  failure.set_exit_code(3);
  failure.set_message("x.idx: found 5 bytes, expected 34");
  EXPECT_THAT(FailureText(failure),
              HasSubstr("rank 1 on worker-2 exited with status 3 at step 12, backward: "
                        "x.idx: found 5 bytes, expected 34"));
}

TEST(DescribeTest, AFailureIsSaidOnce) {
  Job job;
  job.set_name("jobs/gpt");
  job.set_state(Job::FAILED);
  v1alpha1::FirstFailure& failure = *job.mutable_first_failure();
  failure.set_rank(1);
  failure.set_worker("workers/a");
  failure.set_exit_code(3);
  failure.set_step(7);
  failure.set_phase("prepare");
  failure.set_message("data set text/corpus: no such file");
  failure.mutable_time()->set_seconds(1000);
  for (const char* type : {"Prepared", "Succeeded"}) {
    v1alpha1::Condition& condition = *job.add_conditions();
    condition.set_type(type);
    condition.set_status(v1alpha1::Condition::FALSE);
    condition.set_reason("DataInvalid");
    condition.set_message("rank 1 on worker a: data set text/corpus: no such file");
    condition.mutable_last_transition_time()->set_seconds(1001);
  }
  const std::string text = DescribeJob(job, absl::FromUnixSeconds(2000), false);
  const auto count_in = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count_in(text, "no such file"), 1) << text;
  EXPECT_EQ(count_in(text, "the first failure"), 2) << text;
  EXPECT_THAT(text, HasSubstr("  rank 1 on a exited with status 3 at step 7, prepare\n"));
  // Where it ended the last of several attempts, their table does not repeat it either.
  for (int i = 0; i < 2; ++i) job.add_attempts()->mutable_first_failure()->set_message("other");
  *job.mutable_attempts(1)->mutable_first_failure() = failure;
  const std::string again = DescribeJob(job, absl::FromUnixSeconds(2000), false);
  EXPECT_EQ(count_in(again, "no such file"), 1) << again;
  EXPECT_EQ(count_in(again, "the first failure"), 3) << again;
}

}  // namespace
}  // namespace stretto::cli

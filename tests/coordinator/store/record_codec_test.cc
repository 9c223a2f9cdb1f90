// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/record_codec.h"

#include <gtest/gtest.h>

#include <string>

#include "coordinator/core/retired_jobs.h"
#include "tests/coordinator/store/records.h"

namespace stretto::coordinator {
namespace {

TEST(RecordCodecTest, AJobOfAReleaseWithoutBlocksHasBlocksOfOneRank) {
  JobRecord job;
  ASSERT_EQ(DecodeJobBody(R"({"world_size": 4})", &job), absl::OkStatus());
  EXPECT_EQ(job.gang, (Gang{.stages = {{.blocks = 4, .size = 1}}}));
}

// The longest names and message, and a summary as long as the service makes one (HistoryTest).
TEST(RecordCodecTest, ARetiredJobTakesAboutAKilobyte) {
  JobRecord job = FullJob(std::string(63, 'j'), INT64_MAX);
  job.spec = std::string(64'000, 's');
  job.uid = std::string(32, 'u');
  job.project = job.owner = std::string(63, 'n');
  job.conditions[1].message = std::string(100'000, 'm');
  JobRecord retired = RetiredRecord(job, kTime);
  EXPECT_TRUE(retired.fingerprint.empty() && retired.spec.empty() && retired.labels.empty());
  EXPECT_LT(EncodeJobBody(retired).size(), 1300u);
  job.conditions[1].message = "rank 0 on worker a: killed by signal 9";
  EXPECT_LT(EncodeJobBody(RetiredRecord(job, kTime)).size(), 1000u);
}

}  // namespace
}  // namespace stretto::coordinator

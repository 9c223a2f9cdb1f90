// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/job/layouts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/proto/spec/job_specs.h"

namespace stretto::spec {
namespace {

using v1alpha1::JobSpec;

TEST(LayoutsTest, ALayoutHasItsSizesAndTheBatchOfTheJob) {
  const JobSpec spec =
      Normalize(SpecWith("parallelism { tp_size: 1 dp_size: 4 zero: 1 } micro_batch_size: 4 "
                         "restart { layouts: { dp_size: 2 } layouts: { tp_size: 2 } }"));
  ASSERT_EQ(Validate(spec), absl::OkStatus());
  EXPECT_EQ(spec.restart().layouts(0).tp_size(), 1);
  EXPECT_EQ(spec.global_batch_size(), 16);

  const JobSpec two = WithLayout(spec, 1), one = WithLayout(spec, 2);
  EXPECT_EQ(two.parallelism().dp_size(), 2);
  EXPECT_EQ(two.parallelism().zero(), 1);
  EXPECT_EQ(two.global_batch_size(), 16);
  EXPECT_EQ(one.parallelism().tp_size(), 2);
  EXPECT_EQ(one.parallelism().zero(), 0);  // there are no replicas to share the state among
  EXPECT_EQ(one.global_batch_size(), 16);
  for (const JobSpec& in : {two, one}) {
    EXPECT_EQ(Validate(in), absl::OkStatus());
    EXPECT_TRUE(in.restart().layouts().empty());
  }
  EXPECT_EQ(WithLayout(spec, 0).SerializeAsString(), spec.SerializeAsString());
}

TEST(LayoutsTest, FewerStagesDropWhatOnlyAPipelineHas) {
  const JobSpec spec =
      Normalize(SpecWith("parallelism { pp_size: 2 chunks_per_stage: 2 } global_batch_size: 16 "
                         "schedule { pipeline { order: 'interleaved_1f1b' } } "
                         "restart { layouts: { tp_size: 2 } }"));
  ASSERT_EQ(Validate(spec), absl::OkStatus());
  const JobSpec one = WithLayout(spec, 1);
  EXPECT_EQ(Validate(one), absl::OkStatus());
  EXPECT_EQ(one.parallelism().pp_size(), 1);
  EXPECT_FALSE(one.schedule().has_pipeline() && !one.schedule().pipeline().order().empty());
}

TEST(LayoutsTest, AFaultNamesTheLayoutAndTheRule) {
  const auto faults =
      ViolationsOf(Normalize(SpecWith("restart { layouts: { tp_size: 1 } layouts: { tp_size: 4 } "
                                      "layouts: { dp_size: 3 } }")));
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults[0].field, "spec.restart.layouts[1].tp_size");
  EXPECT_THAT(faults[0].description, testing::HasSubstr("found 4, expected a divisor of heads"));
  EXPECT_EQ(faults[1].field, "spec.restart.layouts[2]");
  EXPECT_THAT(faults[1].description,
              testing::StrEq("found 4, expected a multiple of micro_batch_size 4 x dp_size 3 "
                             "(spec.global_batch_size in this layout)"));
}

TEST(LayoutsTest, AJobIsInTheLayoutOfItsNewestAttempt) {
  v1alpha1::Job job;
  *job.mutable_spec() = Normalize(SpecWith("restart { layouts: { dp_size: 3 } }"));
  EXPECT_EQ(ParallelismOf(job).tp_size(), 2);
  job.add_attempts();
  EXPECT_EQ(ParallelismOf(job).tp_size(), 2);
  job.add_attempts()->set_layout(1);
  EXPECT_EQ(ParallelismOf(job).tp_size(), 1);
  EXPECT_EQ(ParallelismOf(job).dp_size(), 3);
  job.add_attempts()->set_layout(2);  // of a newer release
  EXPECT_EQ(ParallelismOf(job).tp_size(), 2);
}

}  // namespace
}  // namespace stretto::spec

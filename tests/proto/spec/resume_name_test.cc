// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/job/resume_name.h"

#include <gtest/gtest.h>

namespace stretto::spec {
namespace {

TEST(ResumeNameTest, JobCheckpointAndProjectAreToldApart) {
  struct {
    const char *text, *job, *checkpoint, *project, *path;
  } const cases[] = {
      {"gpt", "gpt", "", "", "gpt"},
      {"gpt/best", "gpt", "best", "", "gpt/best"},
      {"gpt@speech", "gpt", "", "speech", "gpt"},
      {"gpt/step-00000020@speech", "gpt", "step-00000020", "speech", "gpt/step-00000020"},
      {"gpt/a/b@c@d", "gpt", "a/b@c", "d", "gpt/a/b@c"}};
  for (const auto& one : cases) {
    const auto name = ResumeNameOf(one.text);
    ASSERT_TRUE(name.has_value()) << one.text;
    EXPECT_EQ(name->job, one.job) << one.text;
    EXPECT_EQ(name->checkpoint, one.checkpoint) << one.text;
    EXPECT_EQ(name->project, one.project) << one.text;
    EXPECT_EQ(name->path(), one.path) << one.text;
  }
  EXPECT_FALSE(ResumeNameOf("").has_value());
  EXPECT_FALSE(ResumeNameOf("hf:models/gpt@1").has_value());
}

}  // namespace
}  // namespace stretto::spec

// SPDX-License-Identifier: Apache-2.0
#include "proto/base/nearest_name.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(NearestNameTest, AWordOfTheSameMeaningBeatsANearSpelling) {
  EXPECT_EQ(NearestName("gpu", {"cpu", "cuda"}), "cuda");
  EXPECT_EQ(NearestName("GPU", {"cpu", "cuda"}), "cuda");
  EXPECT_EQ(NearestName("fp32", {"f32", "bf16"}), "f32");
  EXPECT_EQ(NearestName("done", {"pending", "succeeded"}), "succeeded");
  EXPECT_EQ(NearestName("rm", {"list", "delete"}), "delete");
  EXPECT_EQ(NearestName("lr", {"name", "learning_rate"}), "learning_rate");
}

TEST(NearestNameTest, AMeaningThatIsNotOfferedIsNotSuggested) {
  EXPECT_EQ(NearestName("gpu", {"cpu"}), "cpu");
  EXPECT_EQ(NearestName("done", {"gpt", "bert"}), "");
  // 16 bits with another range are another type.
  EXPECT_EQ(NearestName("float16", {"f32", "bf16"}), "");
}

TEST(NearestNameTest, SpellingsMayBeAThirdWrong) {
  EXPECT_EQ(NearestName("shedule", {"schedule", "steps"}), "schedule");
  EXPECT_EQ(NearestName("stpes", {"schedule", "steps"}), "steps");
  EXPECT_EQ(NearestName("nothing", {"schedule", "steps"}), "");
  EXPECT_EQ(NearestName("", {"a"}), "");
  EXPECT_EQ(NearestName("x", {}), "");
}

}  // namespace
}  // namespace stretto

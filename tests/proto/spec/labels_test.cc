// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/job/labels.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/proto/spec/job_specs.h"

namespace stretto::spec {
namespace {

// Returns the violations of a spec with one label.
std::vector<FieldViolation> WithLabel(const std::string& key, const std::string& value) {
  v1alpha1::JobSpec spec = Normalize(Parsed(kPreset));
  (*spec.mutable_labels())[key] = value;
  return ViolationsOf(spec);
}

TEST(LabelsTest, KeysAndValuesAreThoseOfKubernetes) {
  for (const char* key : {"a", "Team", "9-lives", "a_b.c", "example.com/team", "x/Y"}) {
    EXPECT_TRUE(IsLabelKey(key)) << key;
  }
  for (const char* key : {"", "-a", "a-", "a b", "/a", "a/", "a/b/c", "A.com/a", "-.com/a",
                          "a..b/c", "t\xc3\xa9", "a\n", "a=b"}) {
    EXPECT_FALSE(IsLabelKey(key)) << key;
  }
  for (const char* value : {"", "1", "v1.2_rc-3"}) EXPECT_TRUE(IsLabelValue(value)) << value;
  for (const char* value : {"_", "a/b", " ", "a,b"}) EXPECT_FALSE(IsLabelValue(value)) << value;
}

TEST(LabelsTest, NamesAndValuesHaveAtMost63Characters) {
  const std::string longest(63, 'a');
  EXPECT_TRUE(WithLabel(longest, longest).empty());
  ASSERT_EQ(WithLabel("team", longest + "a").size(), 1u);
  EXPECT_EQ(WithLabel("team", longest + "a")[0].field, "spec.labels[team]");
  ASSERT_EQ(WithLabel(longest + "a", "").size(), 1u);
  EXPECT_EQ(WithLabel(longest + "a", "")[0].field, "spec.labels");
}

TEST(LabelsTest, PrefixesHaveAtMost253Characters) {
  const std::string longest(253, 'a');
  EXPECT_TRUE(WithLabel(longest + "/team", "").empty());
  EXPECT_EQ(WithLabel(longest + "a/team", "").size(), 1u);
}

TEST(LabelsTest, AJobHasAtMost64) {
  v1alpha1::JobSpec spec = Normalize(Parsed(kPreset));
  for (int i = 0; i < 64; ++i) (*spec.mutable_labels())[absl::StrCat("label", i)] = "";
  EXPECT_TRUE(ViolationsOf(spec).empty());
  (*spec.mutable_labels())["more"] = "";
  ASSERT_EQ(ViolationsOf(spec).size(), 1u);
  EXPECT_EQ(ViolationsOf(spec)[0].description, "found 65 labels, expected at most 64");
}

}  // namespace
}  // namespace stretto::spec

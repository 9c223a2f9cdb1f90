// SPDX-License-Identifier: Apache-2.0

// The table of fields is about the fields of JobSpec, and says of each what others need.
#include "proto/spec/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/spec/job/places.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

void CollectPaths(const Descriptor& type, const std::string& before,
                  std::vector<std::string>* paths) {
  for (int i = 0; i < type.field_count(); ++i) {
    const std::string path = absl::StrCat(before, type.field(i)->name());
    paths->push_back(path);
    if (type.field(i)->message_type() != nullptr && !type.field(i)->is_map()) {
      CollectPaths(*type.field(i)->message_type(), path + ".", paths);
    }
  }
}

const FieldDescriptor& DescriptorOfRow(const Field& field) {
  return *DescriptorOf(*v1alpha1::JobSpec::descriptor(), field.path);
}

TEST(FieldsTest, EveryFieldOfASpecHasOneRow) {
  std::vector<std::string> fields, rows;
  CollectPaths(*v1alpha1::JobSpec::descriptor(), "", &fields);
  for (const Field& field : JobFields()) rows.emplace_back(field.path);
  EXPECT_THAT(rows, ::testing::UnorderedElementsAreArray(fields));
}

TEST(FieldsTest, EveryRowIsDescribedAndSaysWhatHappensWithoutIt) {
  for (const Field& field : JobFields()) {
    const std::string help = field.help;
    ASSERT_FALSE(help.empty()) << field.path;
    EXPECT_EQ(help.back(), '.') << field.path;
    const bool has_default = field.value[0] != '\0' || field.derived[0] != '\0';
    EXPECT_FALSE(has_default && std::string(field.required) == "always") << field.path;
    EXPECT_TRUE(has_default || field.required[0] != '\0') << field.path;
  }
}

TEST(FieldsTest, NumbersHaveARangeAndDefaultsAreWithinIt) {
  for (const Field& field : JobFields()) {
    const FieldDescriptor& descriptor = DescriptorOfRow(field);
    const bool number = descriptor.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
                        descriptor.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
                        descriptor.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
    EXPECT_EQ(field.range.bounded(), number) << field.path;
    double value = 0;
    if (!number || !absl::SimpleAtod(field.value, &value)) continue;
    EXPECT_TRUE(field.range.Contains(value)) << field.path;
  }
}

// Else a default of an older spec would be written into its hash.
TEST(FieldsTest, AddedFieldsOfTheHashHaveADefaultThatIsAValue) {
  for (const Field& field : JobFields()) {
    if (field.in_hash != InHash::kAdded && field.in_hash != InHash::kLayout) continue;
    EXPECT_NE(field.value[0], '\0') << field.path;
  }
}

TEST(FieldsTest, AnOptionalSectionIsASection) {
  for (const Field& field : JobFields()) {
    if (!field.optional) continue;
    EXPECT_NE(DescriptorOfRow(field).message_type(), nullptr) << field.path;
  }
}

TEST(RangeTest, TextSaysWhichEndsBelong) {
  EXPECT_EQ((Range{1, 256}).Text(), "1 to 256");
  EXPECT_EQ((Range{1, 1}).Text(), "1");
  EXPECT_EQ((Range{0, 1, false, true}).Text(), "0 to below 1");
  EXPECT_EQ((Range{0, 1000, true, false}).Text(), "above 0, at most 1000");
  EXPECT_EQ((Range{0, Range::kUnbounded}).Text(), "at least 0");
  EXPECT_EQ((Range{1.2e-38, 1}).Text(), "1.2e-38 to 1");
  EXPECT_EQ((Range{1, 1e9}).Text(), "1 to 1000000000");
}

TEST(RangeTest, ContainsItsEndsUnlessTheyAreExcluded) {
  const Range closed{0, 1}, open{0, 1, true, true};
  for (double value : {0.0, 1.0}) {
    EXPECT_TRUE(closed.Contains(value));
    EXPECT_FALSE(open.Contains(value));
  }
  EXPECT_TRUE(open.Contains(0.5));
  const double infinity = Range::kUnbounded;
  for (double value : {-0.1, 1.1, infinity, -infinity, infinity - infinity}) {
    EXPECT_FALSE(closed.Contains(value));
  }
  EXPECT_FALSE((Range{0, infinity}).Contains(infinity));
}

TEST(TakersTest, NameThoseThatTheTablesHave) {
  EXPECT_EQ(TextOf(Taker::kRotary), "family llama");
  EXPECT_THAT(TextOf(Taker::kSplit), ::testing::StartsWith("schedules domino_col, "));
  EXPECT_EQ(TextOf(Taker::kAll), "");
}

}  // namespace
}  // namespace stretto::spec

// SPDX-License-Identifier: Apache-2.0
#include "proto/metrics/families.h"

#include <gtest/gtest.h>

namespace stretto::metrics {
namespace {

constexpr Definition kTable[] = {
    {"a_total", Type::kCounter, "things", "kind", "Counts."},
    {"b_seconds", Type::kHistogram, "seconds", "", "Takes."},
    {"c", Type::kGauge, "things", "kind place", "Is."},
};

TEST(FamiliesTest, ComeInTheTablesOrderAndWithoutThoseThatHaveNoSamples) {
  Families families(kTable);
  families.Add(Row(kTable, "c"), {"x", "here"}, 2.5);
  families.Add(Row(kTable, "a_total"), {"x"}, 1);
  families.Add(Row(kTable, "a_total"), {"y"}, 3);
  EXPECT_EQ(Text(std::move(families).Take()),
            "# HELP a_total Counts.\n"
            "# TYPE a_total counter\n"
            "a_total{kind=\"x\"} 1\n"
            "a_total{kind=\"y\"} 3\n"
            "# HELP c Is.\n"
            "# TYPE c gauge\n"
            "c{kind=\"x\",place=\"here\"} 2.5\n");
}

TEST(FamiliesTest, BucketsOfAHistogramHoldAllThatIsNotLarger) {
  constexpr double kBounds[] = {1, 2};
  Histogram histogram(kBounds);
  for (double value : {0.5, 1.0, 1.5, 3.0}) histogram.Observe(value);
  Families families(kTable);
  families.Add(Row(kTable, "b_seconds"), {}, histogram);
  EXPECT_EQ(Text(std::move(families).Take()),
            "# HELP b_seconds Takes.\n"
            "# TYPE b_seconds histogram\n"
            "b_seconds_count 4\n"
            "b_seconds_sum 6\n"
            "b_seconds_bucket{le=\"1\"} 2\n"
            "b_seconds_bucket{le=\"2\"} 3\n"
            "b_seconds_bucket{le=\"+Inf\"} 4\n");
}

TEST(FamiliesDeathTest, ASampleFitsItsRow) {
  Families families(kTable);
  EXPECT_DEATH(families.Add(Row(kTable, "a_total"), {}, 1), "names.size\\(\\) == labels.size");
  EXPECT_DEATH(families.Add(Row(kTable, "b_seconds"), {}, 1), "kHistogram");
  constexpr Definition kOther = {"d", Type::kGauge, "", "", ""};
  static const Definition other = kOther;
  EXPECT_DEATH(families.Add(other, {}, 1), "table_");
}

}  // namespace
}  // namespace stretto::metrics

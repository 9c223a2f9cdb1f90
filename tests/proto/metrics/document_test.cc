// SPDX-License-Identifier: Apache-2.0

// docs/METRICS.md says of every metric what its row says. STRETTO_REWRITE=1 writes the tables anew.

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "coordinator/telemetry/metric_table.h"
#include "proto/base/files.h"
#include "proto/metrics/definition.h"
#include "proto/metrics/labels.h"
#include "worker/daemon/metric_table.h"

namespace stretto::metrics {
namespace {

constexpr char kDocument[] = STRETTO_SOURCE_DIR "/docs/METRICS.md";

const char* NameOf(Type type) {
  switch (type) {
    case Type::kCounter:
      return "counter";
    case Type::kGauge:
      return "gauge";
    case Type::kHistogram:
      break;
  }
  return "histogram";
}

std::vector<std::string> LabelsOf(const Definition& row) {
  return absl::StrSplit(std::string(row.labels), ' ', absl::SkipEmpty());
}

std::string TableOf(absl::Span<const Definition> rows) {
  std::string text = "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n";
  for (const Definition& row : rows) {
    std::string labels;
    for (const std::string& label : LabelsOf(row)) {
      absl::StrAppend(&labels, labels.empty() ? "" : " ", "`", label, "`");
    }
    absl::StrAppend(&text, "| `", std::string(row.name), "` | ", NameOf(row.type), " | ",
                    std::string(row.unit), " | ", labels, " | ", std::string(row.help), " |\n");
  }
  return text;
}

std::string TableOfLabels() {
  std::string text = "| label | values |\n|---|---|\n";
  for (const Label& label : kLabels) {
    absl::StrAppend(&text, "| `", std::string(label.name), "` | ", std::string(label.values),
                    " |\n");
  }
  return text;
}

// `document` with `table` between "<!-- NAME -->\n" and "<!-- /NAME -->".
std::string With(const std::string& document, const std::string& name, const std::string& table) {
  const std::string begin = absl::StrCat("<!-- ", name, " -->\n");
  const std::string end = absl::StrCat("<!-- /", name, " -->");
  const size_t from = document.find(begin), to = document.find(end);
  EXPECT_NE(from, std::string::npos) << kDocument << " has no " << begin;
  EXPECT_NE(to, std::string::npos) << kDocument << " has no " << end;
  if (from == std::string::npos || to == std::string::npos) return document;
  return absl::StrCat(document.substr(0, from + begin.size()), table, document.substr(to));
}

TEST(MetricsDocumentTest, HasTheTablesOfTheCode) {
  const auto found = ReadFile(kDocument);
  ASSERT_TRUE(found.ok()) << found.status();
  std::string expected = With(*found, "coordinator", TableOf(telemetry::kMetrics));
  expected = With(expected, "worker", TableOf(daemon::kMetrics));
  expected = With(expected, "labels", TableOfLabels());
  if (std::getenv("STRETTO_REWRITE") != nullptr) {
    ASSERT_TRUE(WriteFileAtomic(kDocument, expected).ok());
  }
  EXPECT_EQ(*ReadFile(kDocument), expected) << "set STRETTO_REWRITE=1 to write " << kDocument;
}

TEST(MetricTablesTest, NamesAreWhatPrometheusExpects) {
  for (const auto rows :
       {absl::MakeConstSpan(telemetry::kMetrics), absl::MakeConstSpan(daemon::kMetrics)}) {
    std::set<std::string_view> names;
    for (const Definition& row : rows) {
      const std::string name(row.name);
      EXPECT_TRUE(names.insert(row.name).second) << name << " stands twice in one table";
      EXPECT_TRUE(absl::StartsWith(name, "stretto_")) << name;
      for (const char c : name) EXPECT_TRUE(std::islower(c) || c == '_') << name;
      EXPECT_EQ(absl::EndsWith(name, "_total"), row.type == Type::kCounter) << name;
      const std::string stem(name.substr(0, name.size() - (row.type == Type::kCounter ? 6 : 0)));
      const std::string unit(row.unit);
      EXPECT_FALSE(absl::EndsWith(stem, "_ratio")) << name << ": divide in a rule";
      EXPECT_EQ(absl::StartsWith(unit, "seconds"), absl::EndsWith(stem, "_seconds")) << name;
      EXPECT_EQ(unit == "seconds since 1970", absl::EndsWith(stem, "_timestamp_seconds")) << name;
      EXPECT_EQ(unit == "bytes", absl::EndsWith(stem, "_bytes")) << name;
      EXPECT_EQ(unit.empty(), absl::EndsWith(name, "_info")) << name;
    }
  }
}

TEST(MetricTablesTest, EveryLabelIsBoundedInWords) {
  std::set<std::string> used, documented;
  for (const Definition& row : telemetry::kMetrics) {
    for (const std::string& label : LabelsOf(row)) used.insert(label);
  }
  for (const Definition& row : daemon::kMetrics) {
    for (const std::string& label : LabelsOf(row)) used.insert(label);
  }
  for (const Label& label : kLabels) documented.insert(std::string(label.name));
  EXPECT_EQ(used, documented);
}

}  // namespace
}  // namespace stretto::metrics

// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/table_row.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace stretto::integration {
namespace {

// One line of a cell.
std::string Cell(const std::string& text) {
  std::string cell = absl::StrReplaceAll(text, {{"\n", " "}, {"|", "/"}, {"Failed ", ""}});
  if (cell.size() > 200) cell = cell.substr(0, 197) + "...";
  return cell;
}

std::string Verdict() {
  const ::testing::TestResult& result =
      *::testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const ::testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.skipped()) return absl::StrCat("skipped: ", part.message());
    if (part.failed()) return absl::StrCat("**missed**: ", part.message());
  }
  return "held";
}

}  // namespace

void WriteRow(const std::vector<std::string>& cells, const std::string& figures) {
  std::string line = "| ";
  for (const std::string& cell : cells) absl::StrAppend(&line, Cell(cell), " | ");
  absl::StrAppend(&line, Cell(Verdict()), figures, " |\n");
  std::printf("%s", line.c_str());
  const char* table = std::getenv("STRETTO_TABLE");
  if (table == nullptr) return;
  std::FILE* file = std::fopen(table, "a");
  ASSERT_NE(file, nullptr) << table;
  std::fputs(line.c_str(), file);
  std::fclose(file);
}

}  // namespace stretto::integration

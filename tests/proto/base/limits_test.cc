// SPDX-License-Identifier: Apache-2.0

// docs/reference/limits.md is what the table of limits says, and each limit has a test that crosses
// it. STRETTO_REWRITE=1 writes the page.

#include "proto/base/limits.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/files.h"

namespace stretto {
namespace {

constexpr char kPage[] = STRETTO_SOURCE_DIR "/docs/reference/limits.md";

// "65,536"
std::string Grouped(int64_t value) {
  std::string digits = absl::StrCat(value);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string ValueOf(const Limit& limit) {
  if (limit.value == 0) return "none";
  constexpr int64_t kKi = 1 << 10, kMi = 1 << 20;
  switch (limit.unit) {
    case LimitUnit::kCount:
      return Grouped(limit.value);
    case LimitUnit::kSeconds:
      return absl::StrCat(limit.value, " s");
    case LimitUnit::kMilliseconds:
      return absl::StrCat(limit.value, " ms");
    case LimitUnit::kBytes:
      if (limit.value % kMi == 0) return absl::StrCat(limit.value / kMi, " MiB");
      if (limit.value % kKi == 0) return absl::StrCat(Grouped(limit.value / kKi), " KiB");
      return absl::StrCat(Grouped(limit.value), " bytes");
  }
  return "";
}

std::string Page() {
  std::string page =
      "# Limits\n\n"
      "Every bound on what others may send or hold, and what happens beyond it. Flags are those "
      "of\n"
      "`stretto-coordinator` unless another program is named. Each limit has a test that crosses "
      "it.\n"
      "This page is generated from `proto/base/limits.h`.\n\n"
      "A limit has a flag where the right number depends on the cluster: how many jobs, users "
      "and\n"
      "machines it has, and how much memory and disk it gives to them. All others are fixed, for "
      "one of\n"
      "three reasons. A program of another release, or at the other end of a connection, counts on "
      "the\n"
      "number: messages, what is in them, names and pages. Or it is many times what any honest "
      "use\n"
      "needs, so that nobody has to raise it, and lowering it would protect nothing: nesting, "
      "handshakes,\n"
      "what waits for a reader. Or a library sets it.\n\n"
      "| what | default | flag | beyond it | test |\n|---|---|---|---|---|\n";
  for (const Limit* limit : kAllLimits) {
    const std::string flag = limit->flag[0] == '\0' ? "" : absl::StrCat("`", limit->flag, "`");
    absl::StrAppend(&page, "| ", limit->what, " | ", ValueOf(*limit), " | ", flag, " | ",
                    limit->beyond, " | `", limit->test, "` |\n");
  }
  return page;
}

// "Suite.Name" of every test in the tree.
std::set<std::string> Tests() {
  std::set<std::string> names;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(STRETTO_SOURCE_DIR "/tests")) {
    if (!absl::EndsWith(file.path().string(), "_test.cc")) continue;
    std::string text = *ReadFile(file.path().string());
    std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
    for (const char* macro : {"TEST(", "TEST_F(", "TEST_P("}) {
      const std::vector<std::string> parts = absl::StrSplit(text, macro);
      for (size_t i = 1; i < parts.size(); ++i) {
        const std::vector<std::string> suite_and_name =
            absl::StrSplit(parts[i].substr(0, parts[i].find(')')), ',');
        if (suite_and_name.size() == 2) {
          names.insert(absl::StrCat(suite_and_name[0], ".", suite_and_name[1]));
        }
      }
    }
  }
  return names;
}

TEST(LimitsPageTest, IsWhatTheTableSays) {
  if (std::getenv("STRETTO_REWRITE") != nullptr) {
    ASSERT_TRUE(WriteFileAtomic(kPage, Page()).ok());
  }
  const auto page = ReadFile(kPage);
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(*page, Page());
}

TEST(LimitsPageTest, NoLimitIsLeftOut) {
  size_t limits = 0;
  for (const char* name : {"limits.h", "node_limits.h", "http_limits.h"}) {
    const std::string header = *ReadFile(absl::StrCat(STRETTO_SOURCE_DIR "/proto/base/", name));
    limits +=
        std::vector<std::string>(absl::StrSplit(header, "inline constexpr Limit ")).size() - 1;
  }
  EXPECT_EQ(limits, std::size(kAllLimits));
}

TEST(LimitsPageTest, EachLimitHasATestThatExists) {
  const std::set<std::string> tests = Tests();
  ASSERT_GT(tests.size(), 100u);
  for (const Limit* limit : kAllLimits) {
    EXPECT_TRUE(tests.contains(limit->test)) << limit->what << ": no test " << limit->test;
    // Only a flag can give a limit that there is not by default.
    EXPECT_GE(limit->value, limit->flag[0] == '\0' ? 1 : 0) << limit->what;
  }
}

}  // namespace
}  // namespace stretto

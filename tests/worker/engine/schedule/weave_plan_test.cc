// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/strands/weave_plan.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stretto {
namespace {

constexpr char kText[] =
    "weave f0|b0 pace=2\n"
    "  f ln1 qkv attention proj L0\n"
    "  b d.fc2 d.act L11 s1\n"
    "  f sum s0\n"
    "  b d.head w.head\n";

WeavePlan Plan() {
  return {
      .pace = 2,
      .lines = {
          {.strand = Strand::kForward, .words = {"ln1", "qkv", "attention", "proj"}, .layer = 0},
          {.strand = Strand::kBackward, .words = {"d.fc2", "d.act"}, .layer = 11, .slice = 1},
          {.strand = Strand::kForward, .words = {"sum"}, .slice = 0},
          {.strand = Strand::kBackward, .words = {"d.head", "w.head"}}}};
}

std::string ErrorOf(absl::string_view text) {
  return std::string(ParseWeavePlan(text).status().message());
}

TEST(WeavePlanTest, PrintAndParseAreInverse) {
  EXPECT_EQ(PrintWeavePlan(Plan()), kText);
  const auto parsed = ParseWeavePlan(kText);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, Plan());
  EXPECT_EQ(*ParseWeavePlan(PrintWeavePlan({.pace = 0, .lines = {}})), (WeavePlan{.pace = 0}));
}

TEST(WeavePlanTest, AnyWhiteSpaceSeparatesWords) {
  EXPECT_EQ(*ParseWeavePlan("weave f0|b0 pace=2 \r\nf  sum\ts0"),
            (WeavePlan{.pace = 2,
                       .lines = {{.strand = Strand::kForward, .words = {"sum"}, .slice = 0}}}));
}

TEST(WeavePlanTest, AnErrorNamesTheLineWhatWasFoundAndWhatWasExpected) {
  EXPECT_EQ(ErrorOf(""),
            "weave plan, line 1: found '', expected 'weave f0|b0 pace=' and a number "
            "of layers, at least 0");
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=-1\n"),
            "weave plan, line 1: found 'weave f0|b0 pace=-1', expected 'weave f0|b0 pace=' and a "
            "number of layers, at least 0");
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=1\n  f ln1 L0\n  g ln1 L0\n"),
            "weave plan, line 3: found 'g', expected 'f' or 'b'");
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=1\n\n  f ln1 L0\n"),
            "weave plan, line 2: found nothing, expected 'f' or 'b'");
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=1\n  f L0 s1\n"),
            "weave plan, line 2: found no word, expected words to play");
  for (const char* line :
       {"f ln1 L-1", "f ln1 L", "f ln1 L9999999999", "f L0 ln1", "f ln1 L+1", "f LN1"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("weave f0|b0 pace=1\n", line)),
                testing::HasSubstr("expected words, then the layer, then the slice"))
        << line;
  }
}

TEST(WeavePlanTest, DamagedTextIsParsedOrRefused) {
  std::mt19937 random(7);
  const std::string valid = kText;
  int refused = 0;
  for (int run = 0; run < 5000; ++run) {
    std::string text = valid;
    for (int change = 0; change < 3; ++change) text[random() % text.size()] = random() % 128;
    const auto plan = ParseWeavePlan(text);
    refused += plan.ok() ? 0 : 1;
    if (plan.ok()) {
      EXPECT_EQ(*ParseWeavePlan(PrintWeavePlan(*plan)), *plan) << text;
    }
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/strands/weave_plan.h"

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
    "  |\n"
    "  f sum s0\n"
    "  b d.head w.head\n";

WeavePlan Plan() {
  return {
      .pace = 2,
      .lines = {
          {.strand = Strand::kForward, .words = {"ln1", "qkv", "attention", "proj"}, .layer = 0},
          {.strand = Strand::kBackward, .words = {"d.fc2", "d.act"}, .layer = 11, .slice = 1},
          {},
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
            "found '' in line 1 of the plan, expected 'weave f0|b0 pace=' and a number "
            "of layers, at least 0");
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=-1\n"),
            "found 'weave f0|b0 pace=-1' in line 1 of the plan, expected 'weave f0|b0 pace=' and a "
            "number of layers, at least 0");
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=1\n  f ln1 L0\n  g ln1 L0\n"),
            "found 'g' in line 3 of the plan, expected 'f', 'b' or a barrier, '|' alone");
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=1\n\n  f ln1 L0\n"),
            "found nothing in line 2 of the plan, expected 'f', 'b' or a barrier, '|' alone");
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=1\n  | L0\n"),
            "found '|' in line 2 of the plan, expected 'f', 'b' or a barrier, '|' alone");
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=1\n  f L0 s1\n"),
            "found no word in line 2 of the plan, expected words to play");
  for (const char* line : {"f ln1 L-1", "f ln1 L", "f ln1 L9999999999", "f L0 ln1", "f ln1 s0 L1",
                           "f ln1 L+1", "f LN1"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat("weave f0|b0 pace=1\n", line)),
                testing::HasSubstr("expected words, then the layer, then the slice"))
        << line;
  }
}

// A message is UTF-8 and prints as one line.
TEST(WeavePlanTest, AnErrorRepeatsTheBeginningOfALineAndNoControlCharacters) {
  std::string word, shown;
  for (int i = 0; i < 60; ++i) word += "\u00e9";
  for (int i = 0; i < 39; ++i) shown += "\u00e9";
  EXPECT_EQ(ErrorOf("weave f0|b0 pace=1\n  f x" + word + " L0\n"),
            absl::StrCat("found 'x", shown,
                         "...' in line 2 of the plan, expected words, then the "
                         "layer, then the slice"));
  EXPECT_THAT(ErrorOf("weave\x1b[2J\n"), testing::StartsWith("found 'weave\\x1b[2J' in line 1 "));
}

std::string FaultOf(absl::string_view lines, int layers = 2, int slices = 2) {
  const auto plan = ParseWeavePlan(absl::StrCat("weave f0|b0 pace=1\n  b loss\n", lines));
  EXPECT_TRUE(plan.ok()) << plan.status();
  return std::string(CheckWeavePlans({*plan}, {1, layers, slices}).message());
}

TEST(WeavePlanTest, APlanOfAnotherModelIsRefusedWithItsLine) {
  EXPECT_EQ(FaultOf("b d.fc2 L2"), "found layer 2 in line 3 of the plan, expected 0 to 1");
  EXPECT_EQ(FaultOf("b d.fc2 L1 s2"), "found slice 2 in line 3 of the plan, expected 0 to 1");
  EXPECT_EQ(FaultOf("f ln1 L0\nf ln1 L1\nf qkv L0", 3),
            "found layer 1 as the last one in line 4 of the plan, expected 2");
  EXPECT_EQ(FaultOf("f sum s0"), "found slice 0 as the last one in line 3 of the plan, expected 1");
  EXPECT_EQ(FaultOf("f sum s0", 2, 1), "");
  EXPECT_EQ(FaultOf("f ln1 L1\nb r.qkv w.fc2 L0 s1\nf sum s0"), "");
  EXPECT_EQ(FaultOf(""), "");
}

TEST(WeavePlanTest, AWordIsOfAStrandAndInLayersOrNot) {
  EXPECT_EQ(FaultOf("f ln1 fc3 L1"),
            "found 'fc3' in line 3 of the plan, expected one of ln1, qkv, attention, proj, res1, "
            "ln2, fc1, act, fc2, res2");
  EXPECT_EQ(FaultOf("f d.loss"),
            "found 'd.loss' in line 3 of the plan, expected one of recv, embed, position, "
            "final_norm, head, max, sum, send");
  EXPECT_THAT(FaultOf("b ln1 L1"),
              testing::HasSubstr("found 'ln1' in line 3 of the plan, expected one of r.ln1, "));
  EXPECT_EQ(FaultOf("f embed L1"),
            "found 'embed' with a layer in line 3 of the plan, expected none");
  EXPECT_EQ(FaultOf("b w.fc2 s0"),
            "found 'w.fc2' without a layer in line 3 of the plan, expected its layer");
}

// A text of 1 MiB takes milliseconds; comparing each plan with all others would take minutes.
TEST(WeavePlanTest, ATextMayHaveManyPlans) {
  std::string text;
  for (int i = 0; i < 46000; ++i) absl::StrAppend(&text, "weave f0|b", i, " pace=0\n");
  const auto plans = ParseWeavePlans(text);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ(plans->size(), 46000u);
  EXPECT_FALSE(ParseWeavePlans(text + "weave f0|b7 pace=0\n").ok());
}

TEST(WeavePlanTest, ATextHasAPlanForEachCellOfItsJob) {
  const auto fault = [](const std::string& text, const WeaveShape& shape) {
    const auto plans = ParseWeavePlans(text);
    return std::string((plans.ok() ? CheckWeavePlans(*plans, shape) : plans.status()).message());
  };
  const WeaveShape folded = {.chunks = 2, .layers = 2};
  EXPECT_EQ(fault("weave f1|b0 pace=1\n  f ln1 L1\nweave f0|b1 pace=0\n  b d.recv\n", folded), "");
  EXPECT_EQ(fault("weave f1|b0 pace=1\n  weave f0|b1 pace=1\n", folded), "");
  EXPECT_THAT(fault("weave f1|b0 pace=1\n  f " + std::string(1000, 'x') + " L0\n", folded),
              testing::HasSubstr("found '" + std::string(80, 'x') + "...' in line 2"));
  EXPECT_EQ(fault("weave f0|b1 pace=1\n  f sum\nweave f0|b0 pace=1\n", folded),
            "found cell f0|b0 in line 3 of the plan, expected f0|b1 or f1|b0");
  EXPECT_EQ(fault("weave f1|b0 pace=1\n", {}),
            "found cell f1|b0 in line 1 of the plan, expected f0|b0");
  EXPECT_EQ(fault("weave f1|b0 pace=1\n  f ln1 L0\nweave f1|b0 pace=2\n", folded),
            "found 'weave f1|b0 pace=2' in line 3 of the plan, expected one plan for each cell");
  EXPECT_EQ(fault("weave f0|b1 pace=1\nweave f1|b0 pace=1\n  f ln1 L2\n", folded),
            "found layer 2 in line 3 of the plan, expected 0 to 1");
  // Where a plan is in a text is no part of it.
  EXPECT_EQ(
      ParseWeavePlans("weave f0|b1 pace=1\n  f sum\nweave f1|b0 pace=1\n  f ln1 L1\n")->back(),
      *ParseWeavePlan("weave f1|b0 pace=1\n  f ln1 L1\n"));
  EXPECT_EQ(ErrorOf("weave f0|b1 pace=1\nweave f1|b0 pace=1\n"),
            "found a second plan in line 2 of the plan, expected one");
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

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/trace/timeline.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/trace/palette.h"
#include "coordinator/cli/trace/timeline_svg.h"
#include "coordinator/cli/trace/timeline_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"
#include "tests/coordinator/cli/trace/records.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Rank 1 begins 3 ms later.
Timeline TimelineOfTwoRanks() {
  TimelineBuilder builder;
  builder.Add(0, MakeProgram(), MakeStep(12), 7'000'000'000);
  builder.Add(1, MakeProgram(), MakeStep(12), 7'003'000'000);
  return builder.Build(MakeTracedJob(), 1);
}

std::string Joined(const std::vector<std::string>& lines) { return absl::StrJoin(lines, "\n"); }

// Compares with a golden file; STRETTO_REWRITE=1 writes it.
void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = std::string(STRETTO_SOURCE_DIR "/tests/golden/timeline/") + name;
  if (std::getenv("STRETTO_REWRITE") != nullptr) {
    ASSERT_TRUE(WriteFileAtomic(path, text).ok());
  }
  const auto golden = ReadFile(path);
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_EQ(*golden, text) << "STRETTO_REWRITE=1 rewrites " << path;
}

TEST(TimelineTest, BarsAndExposedPartsShareTheAxisOfTheFirstRank) {
  const Timeline timeline = TimelineOfTwoRanks();
  EXPECT_EQ(timeline.job, "gpt");
  EXPECT_EQ(timeline.step, 12);
  EXPECT_EQ(timeline.length, 103'000'000);
  ASSERT_EQ(timeline.ranks.size(), 2u);
  const TimelineRank& second = timeline.ranks[1];
  EXPECT_EQ(second.step.begin, 3'000'000);
  ASSERT_EQ(second.lanes.size(), 2u);
  EXPECT_EQ(second.lanes[0].bars[0].span.begin, 5'000'000);
  EXPECT_EQ(second.lanes[0].bars[0].label, "L0.fc2");
  ASSERT_EQ(second.lanes[1].exposed.size(), 2u);
  EXPECT_EQ(second.lanes[1].exposed[1].begin, 68'000'000);
  EXPECT_EQ(second.lanes[1].exposed[1].end, 73'000'000);
  ASSERT_EQ(second.lanes[0].checkpoint_waits.size(), 1u);
  EXPECT_NEAR(timeline.overlap_ratio(), 0.023 / 0.036, 1e-9);
}

TEST(TimelineTest, TicksAreRoundNumbers) {
  EXPECT_EQ(TickDistance(103'000'000, 12), 10'000'000);
  EXPECT_EQ(TickDistance(103'000'000, 9), 20'000'000);
  EXPECT_EQ(TickDistance(1, 10), 1);
  EXPECT_EQ(TickText(20'000'000), "20");
  EXPECT_EQ(TickText(50'000), "0.05");
  EXPECT_EQ(LengthText(103'000'000), "103.0 ms");
  EXPECT_EQ(LengthText(125'000'000'000), "2m05s");
}

TEST(TimelineTextTest, LettersWithoutColour) {
  EXPECT_THAT(
      DrawTimeline(TimelineOfTwoRanks(), {.width = 66, .unicode = false, .color = false}),
      ElementsAre(
          "job gpt step 12: 103.0 ms, domino_row, 2 ranks, overlap 63.9 %",
          "rank 0 compute dFFFFFFFFFF....BBBBBBBBBBBBBBBBB...OOOOOOO   cccc",
          "       comm.tp      -----#####         --------###",
          "rank 1 compute  dFFFFFFFFFF....BBBBBBBBBBBBBBBBBB..OOOOOOOO  cccc",
          "       comm.tp        -----#####         --------###",
          "               |--------+---------+---------+--------+---------+--",
          "               0 ms     20        40        60       80        100",
          "F forward  B backward  O optimizer  - communication, hidden  # exposed  . waiting  "
          "d data wait  c checkpoint wait"));
}

TEST(TimelineTextTest, GoldenOnAUtf8Terminal) {
  ExpectGolden("plain.txt", Joined(DrawTimeline(TimelineOfTwoRanks(),
                                                {.width = 100, .unicode = true, .color = false})));
  ExpectGolden("color.txt", Joined(DrawTimeline(TimelineOfTwoRanks(),
                                                {.width = 100, .unicode = true, .color = true})));
}

TEST(TimelineTest, AnEvaluationIsDrawn) {
  v1alpha1::TraceStep step = MakeStep(12);
  AddInterval(86'000'000, 90'000'000, step.mutable_evaluations());
  TimelineBuilder builder;
  builder.Add(0, MakeProgram(), step, 7'000'000'000);
  const Timeline timeline = builder.Build(MakeTracedJob(), 1);
  const std::string text =
      Joined(DrawTimeline(timeline, {.width = 116, .unicode = false, .color = false}));
  EXPECT_THAT(text, HasSubstr("OOO eeeecccc"));
  EXPECT_THAT(text, HasSubstr("  c checkpoint wait  e evaluation"));
  EXPECT_THAT(DrawTimelineSvg(timeline), HasSubstr(">evaluation</text>"));
  EXPECT_THAT(DrawTimelineSvg(TimelineOfTwoRanks()), Not(HasSubstr(">evaluation</text>")));
}

TEST(TimelineTextTest, NamesThatAWorkerGaveAreEscaped) {
  v1alpha1::TraceProgram program = MakeProgram();
  program.set_lanes(0, "compute\x1b[2J");
  program.mutable_operations(0)->set_label("L0\x1b[2J");
  TimelineBuilder builder;
  builder.Add(0, program, MakeStep(12), 7'000'000'000);
  const Timeline timeline = builder.Build(MakeTracedJob(), 1);
  const std::string text = Joined(DrawTimeline(timeline, {.width = 116, .unicode = false}));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("compute\\x1b[2J"));
  EXPECT_THAT(DrawTimelineSvg(timeline), Not(HasSubstr("\x1b")));
}

TEST(TimelineTextTest, NoLineIsWiderThanTheTerminal) {
  for (int width : {40, 57, 80, 133}) {
    const auto lines =
        DrawTimeline(TimelineOfTwoRanks(), {.width = width, .unicode = false, .color = false});
    for (size_t i = 1; i + 1 < lines.size(); ++i) {
      EXPECT_LE(lines[i].size(), static_cast<size_t>(width)) << lines[i];
    }
  }
}

TEST(TimelineSvgTest, Golden) {
  ExpectGolden("two_ranks.svg", DrawTimelineSvg(TimelineOfTwoRanks()));
}

TEST(TimelineSvgTest, TextIsEscapedAndThePaletteIsWhatIsUsed) {
  TimelineBuilder builder;
  v1alpha1::TraceProgram program = MakeProgram();
  program.set_lanes(0, "<compute & co>");
  builder.Add(0, program, MakeStep(12), 0);
  v1alpha1::Job job = MakeTracedJob();
  job.mutable_spec()->mutable_emulated_link();
  const std::string svg = DrawTimelineSvg(builder.Build(job, 3));
  EXPECT_THAT(svg, HasSubstr("&lt;compute &amp; co&gt;"));
  EXPECT_THAT(svg, HasSubstr("emulated link  ·  3 machines aligned by wall clock"));
  EXPECT_THAT(svg, HasSubstr("checkpoint wait"));
  EXPECT_THAT(svg, Not(HasSubstr("recompute")));
}

// Whoever prefers dark gets other values of the same names, and nothing is painted outside them.
TEST(TimelineSvgTest, EveryColourHasADarkOne) {
  const std::string svg = DrawTimelineSvg(TimelineOfTwoRanks());
  EXPECT_THAT(svg, HasSubstr("@media (prefers-color-scheme: dark) {\n"));
  std::set<std::string> known;
  for (const PaletteColor& color : kPalette) {
    known.insert({color.light, color.dark});
    EXPECT_THAT(svg, HasSubstr(absl::StrCat("[fill=\"", color.light, "\"] { fill: ")));
  }
  for (size_t at = svg.find('#'); at != std::string::npos; at = svg.find('#', at + 1)) {
    if (svg.compare(at - 1, 1, "(") == 0) continue;  // url(#exposed)
    EXPECT_EQ(known.count(svg.substr(at, 7)), 1u) << svg.substr(at, 7);
  }
}

// A step of many operations stays a picture that one can mail.
TEST(TimelineSvgTest, SliversAreDrawnTogether) {
  v1alpha1::TraceProgram program = MakeProgram();
  v1alpha1::TraceStep step = MakeStep(1);
  step.mutable_operations()->Clear();
  program.clear_operations();
  for (int64_t i = 0; i < 20'000; ++i) {
    *program.add_operations() = MakeProgram().operations(0);
    AddInterval(i * 5'000, i * 5'000 + 4'900, step.mutable_operations());
  }
  TimelineBuilder builder;
  builder.Add(0, program, step, 0);
  EXPECT_LT(DrawTimelineSvg(builder.Build(MakeTracedJob(), 1)).size(), 20'000u);
}

// But a bar that can be seen stays one, also right behind a sliver.
TEST(TimelineSvgTest, ABarBehindASliverKeepsItsName) {
  v1alpha1::TraceProgram program = MakeProgram();
  v1alpha1::TraceStep step = MakeStep(1);
  step.mutable_operations()->Clear();
  program.clear_operations();
  for (const int64_t end : {10'000, 50'000'000}) {
    *program.add_operations() = MakeProgram().operations(0);
    AddInterval(end == 10'000 ? 0 : 10'000, end, step.mutable_operations());
  }
  TimelineBuilder builder;
  builder.Add(0, program, step, 0);
  EXPECT_THAT(DrawTimelineSvg(builder.Build(MakeTracedJob(), 1)), HasSubstr(">L0.fc2</text>"));
}

}  // namespace
}  // namespace stretto::cli

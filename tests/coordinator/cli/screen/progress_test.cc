// SPDX-License-Identifier: Apache-2.0

// A followed job without a picture: its line, and the curve of its loss.
#include "coordinator/cli/screen/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "coordinator/cli/screen/live_line.h"
#include "coordinator/cli/screen/loss_curve.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using v1alpha1::Job;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

v1alpha1::StepReport Step(int64_t number, double loss) {
  v1alpha1::StepReport step;
  step.set_step(number);
  step.set_loss(loss);
  step.set_tokens(1000);
  step.set_wall_seconds(0.5);
  step.mutable_ledger()->set_communication_seconds(0.2);
  step.mutable_ledger()->set_hidden_seconds(0.15);
  return step;
}

TEST(ProgressTest, LineHasStepLossSpeedOverlapAndTimeLeft) {
  Job job;
  job.mutable_spec()->set_steps(20);
  ProgressTracker tracker;
  tracker.Add(job);
  EXPECT_EQ(tracker.Line(), "step 0/20");
  tracker.Add(Step(1, 5.5));
  EXPECT_TRUE(tracker.IsMilestone());
  tracker.Add(Step(2, 5.25));
  EXPECT_EQ(tracker.Line(), "step 2/20  loss 5.2500  2.0k tokens/s  overlap 75.0 %  9.0s left");
  v1alpha1::StepReport skipped = Step(3, kNan);
  skipped.set_update_skipped(true);
  tracker.Add(skipped);
  EXPECT_THAT(tracker.Line(), HasSubstr("loss -"));
  EXPECT_THAT(tracker.Line(), HasSubstr("update skipped: gradient norm not finite"));
}

TEST(ProgressTest, AStepThatWasEvaluatedIsAMilestoneAndSaysSo) {
  Job job;
  job.mutable_spec()->set_steps(1000);
  ProgressTracker tracker;
  tracker.Add(job);
  tracker.Add(Step(7, 5.5));
  EXPECT_FALSE(tracker.IsMilestone());
  v1alpha1::StepReport step = Step(8, 5.25);
  step.mutable_evaluation()->set_loss(2.5);
  step.mutable_evaluation()->set_perplexity(12.18249);
  tracker.Add(step);
  EXPECT_TRUE(tracker.IsMilestone());
  EXPECT_THAT(tracker.Line(),
              HasSubstr("loss 5.2500  held-out loss 2.5000, perplexity 12.18  2.0k tokens/s"));
}

TEST(ProgressTest, ANormThatIsNotFiniteShowsWhereNoUpdateWaitsForIt) {
  Job job;
  job.mutable_spec()->set_steps(1000);
  ProgressTracker tracker;
  tracker.Add(job);
  tracker.Add(Step(1, 5.5));
  v1alpha1::StepReport last = Step(2, kNan);
  last.set_norm_not_finite(true);
  tracker.Add(last);
  EXPECT_THAT(tracker.Line(), HasSubstr("  gradient norm not finite"));
  EXPECT_THAT(tracker.Line(), ::testing::Not(HasSubstr("skipped")));
  EXPECT_TRUE(tracker.IsMilestone());
}

TEST(ProgressTest, AFewMilestonesInALongJob) {
  Job job;
  job.mutable_spec()->set_steps(1000);
  ProgressTracker tracker;
  tracker.Add(job);
  int milestones = 0;
  for (int i = 1; i <= 1000; ++i) {
    tracker.Add(Step(i, 1));
    milestones += tracker.IsMilestone();
  }
  EXPECT_EQ(milestones, 21);
}

TEST(SampleTrackerTest, EachTextIsNewsOnce) {
  Job job;
  job.add_samples()->set_step(10);
  job.add_samples()->set_step(20);
  SampleTracker tracker;
  EXPECT_EQ(tracker.NewsOf(job).size(), 2u);
  EXPECT_TRUE(tracker.NewsOf(job).empty());
  job.mutable_samples()->DeleteSubrange(0, 1);
  job.add_samples()->set_step(30);
  ASSERT_EQ(tracker.NewsOf(job).size(), 1u);
}

TEST(LiveLineTest, IsRewrittenCutAndCleared) {
  std::ostringstream out, err;
  Terminal terminal{.out = out, .err = err, .live = true, .width = 6};
  LiveLine line(terminal);
  line.Rewrite("123456789");
  line.Message("news");
  line.Clear();
  EXPECT_EQ(out.str(), "\r12345\x1b[K\r\x1b[K");
  EXPECT_EQ(err.str(), "news\n");
}

std::vector<CurvePoint> Decay(int count) {
  std::vector<CurvePoint> points;
  for (int i = 1; i <= count; ++i)
    points.push_back({static_cast<double>(i), 8.0 * std::exp(-i / 20.0)});
  return points;
}

TEST(LossCurveTest, AsciiGolden) {
  EXPECT_THAT(DrawCurve(Decay(100), "step", {.width = 32, .height = 6, .braille = false}),
              ElementsAre("  7.61 |*", "       | *", "       |  **", "       |    **",
                          "       |      *****", "0.0539 |           *************",
                          "       +------------------------", "        1        step        100"));
}

TEST(LossCurveTest, BrailleGolden) {
  EXPECT_THAT(DrawCurve({{1, 0}, {2, 1}, {3, 2}, {4, 3}}, "step",
                        {.width = 24, .height = 3, .braille = true}),
              ElementsAre("3 │              ⢀⣀⡠⠤⠒⠒⠉", "  │      ⢀⣀⡠⠤⠔⠒⠊⠉⠁", "0 │⣀⠤⠤⠒⠊⠉⠁",
                          "  └─────────────────────", "   1       step        4"));
}

TEST(LossCurveTest, CountsWhatIsNotFinite) {
  const auto lines =
      DrawCurve({{1, 3}, {2, kNan}, {3, 1}}, "step", {.width = 40, .height = 4, .braille = false});
  EXPECT_THAT(lines.back(), HasSubstr("step (1 of 3 not finite)"));
  EXPECT_THAT(DrawCurve({{1, kNan}}, "step", {}), ElementsAre("1 of 1 not finite"));
  EXPECT_THAT(DrawCurve({}, "step", {}), ElementsAre("no points yet"));
}

TEST(LossCurveTest, ASpikeDoesNotFlattenTheRest) {
  const CurveStyle style{.width = 40, .height = 8, .braille = false};
  std::vector<CurvePoint> points = Decay(100);
  EXPECT_THAT(DrawCurve(points, "step", style).back(), testing::Not(HasSubstr("beyond")));
  points[49].y = 1e6;
  points[69].y = -1e6;
  const std::vector<std::string> lines = DrawCurve(points, "step", style);
  EXPECT_THAT(lines.back(), HasSubstr("step (2 beyond the scale)"));
  // The middle 96 % are from 0.06 to 7.24, and the scale has as much again on either side.
  EXPECT_THAT(lines[0], testing::ContainsRegex("^ 14\\.42 \\| +\\*$"));
  EXPECT_THAT(lines[7], testing::ContainsRegex("^-7\\.125 \\| +\\*$"));
}

TEST(LossCurveTest, FewPointsAreAllWithinTheScale) {
  std::vector<CurvePoint> points = Decay(19);
  points[5].y = 1000;
  const auto lines = DrawCurve(points, "step", {.width = 40, .height = 4, .braille = false});
  EXPECT_THAT(lines.front(), HasSubstr("1000 |"));
  EXPECT_THAT(lines.back(), testing::Not(HasSubstr("beyond")));
}

TEST(LossCurveTest, HeldOutLossesAreMarksOnTheSameScale) {
  const std::vector<CurvePoint> points = {{1, 0}, {2, 1}, {3, 2}, {4, 3}};
  EXPECT_THAT(
      DrawCurve(points, "step", {.width = 30, .height = 4, .braille = false},
                {{2, 1.9}, {4, 3}, {4, kNan}}),
      ElementsAre("3 |                      ****o", "  |         o   *********", "  |     ********",
                  "0 |*****", "  +---------------------------", "   1    step (o held-out)    4"));
  const auto wide = DrawCurve(points, "step", {.width = 40, .height = 4}, {{4, 9}});
  EXPECT_THAT(wide.front(), testing::StartsWith("9 "));
  EXPECT_THAT(wide.front(), testing::EndsWith("○"));
  EXPECT_THAT(wide.back(), HasSubstr("step (○ held-out)"));
}

TEST(LossCurveTest, ASinglePointAndAFlatCurveAreDrawn) {
  const auto one = DrawCurve({{5, 2}}, "step", {.width = 24, .height = 3, .braille = false});
  EXPECT_THAT(one,
              ElementsAre("2 |", "  |          *", "2 |", "  +---------------------", testing::_));
}

}  // namespace
}  // namespace stretto::cli

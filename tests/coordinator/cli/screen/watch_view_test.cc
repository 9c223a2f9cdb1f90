// SPDX-License-Identifier: Apache-2.0

// The picture of `job watch`, by golden texts and by laws that hold at every size.
#include "coordinator/cli/screen/watch_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/screen/ledger_bar.h"
#include "coordinator/cli/screen/text_line.h"
#include "tests/coordinator/cli/conditions.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using v1alpha1::Condition;
using v1alpha1::Job;
using v1alpha1::Ledger;

constexpr int64_t kStart = 1'700'000'000;
absl::Time At(int seconds) { return absl::FromUnixSeconds(kStart + seconds); }

void AddEntry(Ledger* ledger, Ledger::Part part, double seconds) {
  Ledger::Entry* entry = ledger->add_entries();
  entry->set_part(part);
  entry->set_seconds(seconds);
}

v1alpha1::StepReport Step(int64_t number) {
  v1alpha1::StepReport step;
  step.set_step(number);
  step.set_loss(5.5 * std::exp(-static_cast<double>(number) / 40) + 2);
  step.set_grad_norm(1.25);
  step.set_tokens(number % 4 == 0 ? 800 : 1000);
  step.set_wall_seconds(0.5);
  Ledger& ledger = *step.mutable_ledger();
  AddEntry(&ledger, Ledger::COMPUTE_HIDING, 0.2);
  AddEntry(&ledger, Ledger::COMPUTE_ALONE, 0.2);
  AddEntry(&ledger, Ledger::EXPOSED, 0.05);
  AddEntry(&ledger, Ledger::DATA_WAIT, 0.02);
  AddEntry(&ledger, Ledger::CHECKPOINT_WAIT, 0.01);
  AddEntry(&ledger, Ledger::IDLE, 0.02);
  ledger.set_wall_seconds(0.5);
  ledger.set_communication_seconds(0.25);
  ledger.set_hidden_seconds(0.2);
  ledger.set_preempted_seconds(0.015);
  return step;
}

Job RunningJob(int ranks) {
  Job job;
  job.set_name("jobs/gpt");
  job.set_state(Job::RUNNING);
  job.mutable_create_time()->set_seconds(absl::ToUnixSeconds(At(0)));
  job.mutable_start_time()->set_seconds(absl::ToUnixSeconds(At(2)));
  job.mutable_spec()->mutable_schedule()->set_name("domino_row");
  job.mutable_spec()->mutable_schedule()->mutable_parameters()->set_slices(2);
  job.mutable_spec()->mutable_parallelism()->set_tp_size(ranks);
  job.mutable_spec()->mutable_emulated_link()->set_gigabits_per_second(2);
  AddCondition(&job, "Scheduled", Condition::TRUE, kStart + 1, "Placed", "");
  AddCondition(&job, "Prepared", Condition::TRUE, kStart + 2, "AllRanks", "");
  AddCondition(&job, "Running", Condition::TRUE, kStart + 2, "AllRanks", "");
  AddCondition(&job, "DevicesHealthy", Condition::FALSE, kStart + 40, "GpuFault", "rank 1: Xid 79");
  job.mutable_progress()->set_steps(58);
  job.mutable_progress()->set_total_steps(200);
  for (int rank = 0; rank < ranks; ++rank) {
    v1alpha1::RankPlacement& placed = *job.add_placement();
    placed.set_rank(rank);
    placed.set_worker(absl::StrCat("workers/worker-", rank / 2 + 1));
    placed.set_slot(rank % 2);
    Ledger& ledger = *job.mutable_progress()->add_rank_ledgers();
    ledger = Step(1).ledger();
    ledger.set_steps(rank == 1 ? 58 : 60);
  }
  return job;
}

WatchState Running(int ranks = 2) {
  WatchState state;
  state.AddJob(RunningJob(ranks), At(2));
  for (int64_t step = 1; step <= 60; ++step) state.AddStep(Step(step));
  Job later = RunningJob(ranks);
  later.mutable_progress()->set_last_checkpoint("step-00000050");
  state.AddProgress(later, At(25));
  return state;
}

std::string Text(const std::vector<std::string>& lines) {
  return absl::StrJoin(lines, "\n") + "\n";
}

void CompareWithGolden(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(STRETTO_SOURCE_DIR, "/tests/golden/cli/", name, ".txt");
  if (std::getenv("STRETTO_REWRITE") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::ostringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << "set STRETTO_REWRITE=1 to accept the new " << path;
}

struct Size {
  const char* name;
  ViewStyle style;
  int ranks = 2;
};

TEST(WatchViewTest, LooksAsItsGoldenTexts) {
  const Size sizes[] = {
      {"watch_80x24", {.width = 80, .height = 24, .color = false, .unicode = true}},
      {"watch_80x24_color", {.width = 80, .height = 24, .color = true, .unicode = true}},
      {"watch_80x24_ascii", {.width = 80, .height = 24, .color = false, .unicode = false}},
      {"watch_120x50", {.width = 120, .height = 50, .color = false, .unicode = true}, 8},
      {"watch_100x24_many", {.width = 100, .height = 24, .color = false, .unicode = true}, 8},
      {"watch_48x12_ascii", {.width = 48, .height = 12, .color = false, .unicode = false}},
  };
  for (const Size& size : sizes) {
    CompareWithGolden(size.name, Text(RenderWatch(Running(size.ranks), At(62), size.style)));
  }
}

TEST(WatchViewTest, RanksOfAPipelineHaveAStageAndWhatTheyWaitForOthers) {
  WatchState state = Running(4);
  Job job = RunningJob(4);
  v1alpha1::ParallelismSpec& parallelism = *job.mutable_spec()->mutable_parallelism();
  parallelism.set_tp_size(2);
  parallelism.set_dp_size(1);
  parallelism.set_pp_size(2);
  for (int rank : {2, 3})
    AddEntry(job.mutable_progress()->mutable_rank_ledgers(rank), Ledger::PIPELINE_WAIT, 0.25);
  state.job = job;
  const ViewStyle style{.width = 80, .height = 40, .color = false, .unicode = true};
  CompareWithGolden("watch_80x40_stages", Text(RenderWatch(state, At(62), style)));
}

TEST(WatchViewTest, AJobThatEvaluatesShowsItsHeldOutLoss) {
  WatchState state = Running();
  v1alpha1::StepReport step = Step(61);
  v1alpha1::Evaluation& evaluation = *step.mutable_evaluation();
  evaluation.set_loss(2.5);
  evaluation.set_perplexity(std::exp(2.5));
  evaluation.set_best_loss(2.25);
  AddEntry(step.mutable_ledger(), Ledger::EVALUATION, 0.5);
  state.AddStep(step);
  state.AddStep(Step(62));
  const ViewStyle style{.width = 80, .height = 24, .color = false, .unicode = true};
  CompareWithGolden("watch_80x24_evaluation", Text(RenderWatch(state, At(62), style)));
}

TEST(WatchViewTest, FillsEverySizeExactly) {
  const WatchState running = Running(5);
  for (int width = 1; width < 130; width += 3) {
    for (int height = 1; height < 60; ++height) {
      const ViewStyle style{.width = width, .height = height, .color = false, .unicode = true};
      const std::vector<std::string> lines = RenderWatch(running, At(62), style);
      ASSERT_EQ(lines.size(), static_cast<size_t>(height));
      for (const std::string& line : lines) {
        ASSERT_LE(Columns(line), width) << width << "x" << height << ": " << line;
      }
    }
  }
}

TEST(WatchViewTest, GrowsWithTheScreen) {
  const auto rows = [](int height) {
    return Text(RenderWatch(Running(5), At(62), {.width = 80, .height = height, .color = false}));
  };
  EXPECT_THAT(rows(24), HasSubstr("slowest of 5"));
  EXPECT_THAT(rows(60), Not(HasSubstr("slowest of")));
  EXPECT_THAT(rows(60), HasSubstr("created"));
}

TEST(WatchViewTest, AJobThatWaitsSaysWhy) {
  WatchState state;
  Job job;
  job.set_name("jobs/gpt");
  job.set_state(Job::PENDING);
  job.mutable_spec()->set_steps(10);
  AddCondition(&job, "Scheduled", Condition::FALSE, kStart + 1, "NotEnoughSlots",
               "found 1, expected 2");
  state.AddJob(job, At(1));
  const auto lines = RenderWatch(state, At(5), {.width = 80, .height = 12, .color = false});
  EXPECT_EQ(lines[0],
            "job gpt  PENDING  step 0/10                                         22:13:25 UTC");
  EXPECT_EQ(lines[3], "NotEnoughSlots: found 1, expected 2");
  EXPECT_EQ(lines[4], "no steps yet");
  EXPECT_EQ(lines[5], "Scheduled ✗");
}

TEST(WatchViewTest, ALostCoordinatorIsShownUntilItIsBack) {
  WatchState state = Running();
  state.AddNotice("lost the coordinator at 127.0.0.1:7070", At(63));
  const ViewStyle style{.width = 80, .height = 40, .color = false};
  EXPECT_EQ(RenderWatch(state, At(64), style)[3], "lost the coordinator at 127.0.0.1:7070");
  state.AddProgress(RunningJob(2), At(64));  // asked for before the loss
  EXPECT_NE(state.lost, "");
  state.AddNotice("reconnected to 127.0.0.1:7070", At(65));
  state.AddJob(RunningJob(2), At(65));
  const std::string text = Text(RenderWatch(state, At(66), style));
  EXPECT_THAT(RenderWatch(state, At(66), style)[3], HasSubstr("loss"));
  EXPECT_THAT(text, HasSubstr("22:14:23  lost the coordinator at 127.0.0.1:7070\n"));
  EXPECT_THAT(text, HasSubstr("22:14:25  reconnected to 127.0.0.1:7070\n"));
}

TEST(WatchViewTest, NothingAServerSaysDrivesTheTerminal) {
  WatchState state;
  Job job = RunningJob(1);
  job.set_name("jobs/a\x1b[2Jb");
  job.mutable_placement(0)->set_worker("workers/\x1b[31m");
  AddCondition(&job, "Odd\nType", Condition::UNKNOWN, kStart + 3, "R\x1b", "m\x07");
  state.AddJob(job, At(1));
  const std::string text =
      Text(RenderWatch(state, At(5), {.width = 90, .height = 40, .color = false}));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\x07")));
}

TEST(WatchStateTest, KeepsABoundedHistoryAndNotesCheckpointsOnce) {
  WatchState state = Running();
  EXPECT_EQ(state.recent.size(), WatchState::kRecentSteps);
  EXPECT_EQ(state.losses.size(), 60u);
  ASSERT_EQ(state.seen.size(), 1u);
  EXPECT_EQ(state.seen[0].text, "checkpoint step-00000050");
  EXPECT_EQ(state.seen[0].time, At(25));
  for (int i = 0; i < 1000; ++i) {
    state.AddNotice("lost", At(i));
    state.AddStep(Step(60 + i));
  }
  EXPECT_EQ(state.seen.size(), WatchState::kSeen);
  EXPECT_EQ(state.speeds.size(), WatchState::kSpeeds);
}

TEST(WatchStateTest, ACheckpointOfBeforeIsNoNews) {
  WatchState state;
  state.job.set_name("jobs/gpt");
  Job job = RunningJob(2);
  job.mutable_progress()->set_last_checkpoint("step-00000050");
  state.AddProgress(job, At(1));  // nothing counts before the job itself
  EXPECT_EQ(state.job.progress().steps(), 0);
  state.AddJob(job, At(1));
  EXPECT_TRUE(state.seen.empty());
}

TEST(WatchStateTest, ProgressOfAnotherJobOfTheNameIsIgnored) {
  WatchState state = Running();
  Job other = RunningJob(2);
  other.set_uid("another");
  other.mutable_progress()->set_steps(1);
  state.AddProgress(other, At(70));
  EXPECT_EQ(state.job.progress().steps(), 58);
}

TEST(LedgerBarTest, PartsFillTheBarByTheirShare) {
  v1alpha1::StepReport step;
  AddEntry(step.mutable_ledger(), Ledger::COMPUTE_HIDING, 3);
  AddEntry(step.mutable_ledger(), Ledger::EXPOSED, 1);
  step.mutable_ledger()->set_communication_seconds(4);
  step.mutable_ledger()->set_hidden_seconds(3);
  EXPECT_THAT(LedgerBar({step}, {.width = 40, .color = false, .unicode = false}),
              ElementsAre("ledger  ############!!!!  overlap 75.0 %",
                          "# hiding 75%  = alone 0%  ! exposed 25%",
                          "d data 0%  c checkpoint 0%  . idle 0%"));
  EXPECT_THAT(LedgerBar({}, {}), ElementsAre());
}

TEST(TextLineTest, IsCutBetweenCodePointsAndColoursCostNothing) {
  EXPECT_EQ(TextLine(4, false).Add("aé✓b!").text(), "aé✓b");
  EXPECT_EQ(TextLine(3, true).Add("ab", Ink::kRed).Add("cd").Add("e", Ink::kRed).text(),
            "\x1b[31mab\x1b[0mc");
  EXPECT_EQ(TextLine(6, false).Add("a").FillUntil(2).Add("bc").text(), "a   bc");
  EXPECT_EQ(TextLine(6, false).Add("a\tb\n\x1b").text(), "a b ?");
}

}  // namespace
}  // namespace stretto::cli

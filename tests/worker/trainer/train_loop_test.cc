// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/train_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/training.h"
#include "worker/checkpoint/fence.h"

namespace stretto::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class TrainLoopTest : public TrainingTest {};

TEST_F(TrainLoopTest, SavesEveryCheckpointThatIsDue) {
  const TrainResult result = Run();
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.reason, ExitReason::kCompleted);
  EXPECT_THAT(Steps(), ElementsAre("1", "2", "3", "4", "5", "6"));
  EXPECT_THAT(Saved(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(TrainLoopTest, EveryCheckpointHasTheAttachments) {
  config_.steps = 2;
  ASSERT_EQ(Run().reason, ExitReason::kCompleted);
  for (const char* name : {"/step-00000001", "/step-00000002"}) {
    const auto checkpoint = Checkpoint::Open(config_.checkpoint_folder + name);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    ASSERT_EQ(checkpoint->manifest().attachments.size(), 1u);
    EXPECT_EQ(checkpoint->manifest().attachments[0].name, "model.json");
  }
}

TEST_F(TrainLoopTest, AJobOfNoStepsWritesItsWeights) {
  config_.steps = 0;
  config_.checkpoint_interval = 0;
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCompleted);
  EXPECT_THAT(Steps(), IsEmpty());
  EXPECT_THAT(Saved(), ElementsAre(0));
  const auto engine = MakeEngine();
  ASSERT_TRUE(engine->Initialise(1).ok());
  const auto checkpoint = Checkpoint::Open(config_.checkpoint_folder + "/step-00000000");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (const ShardTensor& tensor : engine->StateTensors()) {
    std::vector<float> saved(static_cast<size_t>(*TensorBytes("F32", tensor.extents)) /
                             sizeof(float));
    ASSERT_TRUE(
        checkpoint->Read(tensor.name, "F32", tensor.starts, tensor.extents, saved.data()).ok());
    const float* held = static_cast<const float*>(*tensor.data.fetch());
    EXPECT_TRUE(std::equal(saved.begin(), saved.end(), held)) << tensor.name;
  }
}

TEST_F(TrainLoopTest, AJobOfNoStepsFailsWhereItCannotWrite) {
  config_.steps = 0;
  Spill(config_.checkpoint_folder, "a file where the folder should be");
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCheckpointFailed);
  EXPECT_THAT(std::string(result.status.message()), testing::HasSubstr(config_.checkpoint_folder));
}

TEST_F(TrainLoopTest, TheLastCheckpointIsTriedUntilItIsWritten) {
  config_.checkpoint_interval = 0;
  Spill(config_.checkpoint_folder, "a file where the folder should be");
  on_sleep_ = [this] {
    if (slept_ >= absl::Seconds(4)) std::filesystem::remove(config_.checkpoint_folder);
  };
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCompleted);
  EXPECT_EQ(slept_, absl::Seconds(1 + 3));
  EXPECT_THAT(Saved(), ElementsAre(6));
  std::vector<bool> tries;
  const auto reports = ReadAfter(folder_ / "reports.log", 0);
  for (const v1alpha1::RankReport& report : *reports) {
    if (report.has_checkpoint()) tries.push_back(report.checkpoint().ok());
  }
  EXPECT_THAT(tries, ElementsAre(false, false, true));
}

// What the job was for is not there.
TEST_F(TrainLoopTest, AJobWhoseLastCheckpointCannotBeWrittenFails) {
  Spill(config_.checkpoint_folder, "a file where the folder should be");
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCheckpointFailed);
  EXPECT_EQ(slept_, absl::Seconds(1 + 3 + 9 + 27));
  EXPECT_THAT(std::string(result.status.message()),
              testing::AllOf(testing::HasSubstr("the last checkpoint could not be written: "),
                             testing::HasSubstr(config_.checkpoint_folder)));
  // Its steps are reported all the same, and earlier failures did not end it.
  EXPECT_THAT(Steps(), ElementsAre("1", "2", "3", "4", "5", "6"));
}

TEST_F(TrainLoopTest, AnEarlyStopThatCannotBeSavedFailsToo) {
  Evaluate({.patience = 1, .min_improvement = 1e6});
  config_.steps = 10;
  config_.checkpoint_interval = 0;
  Spill(config_.checkpoint_folder, "a file where the folder should be");
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCheckpointFailed);
  EXPECT_EQ(result.state.step, 4);
}

TEST_F(TrainLoopTest, ARequestToStopEndsTheTries) {
  config_.checkpoint_interval = 0;
  Spill(config_.checkpoint_folder, "a file where the folder should be");
  on_sleep_ = [this] { terminate_ = true; };
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCancelled);
  EXPECT_EQ(slept_, absl::Seconds(1));
  EXPECT_THAT(std::string(result.status.message()), testing::HasSubstr("stopped after step 6"));
}

// Calls `before` before every call.
class WatchedGroup final : public Communicator {
 public:
  WatchedGroup(Communicator& group, std::function<void()> before)
      : group_(group), before_(std::move(before)) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  absl::Status Run(const Collective& collective) override {
    before_();
    return group_.Run(collective);
  }
  void Abort() override { group_.Abort(); }

 private:
  Communicator& group_;
  const std::function<void()> before_;
};

// Rank 0 withdraws its request once the ranks have agreed on it.
TEST_F(TrainLoopTest, ARequestThatIsWithdrawnEndsNoTries) {
  config_.engine.tp_size = 2;
  config_.steps = 1;
  config_.checkpoint_interval = 0;
  Spill(config_.checkpoint_folder, "a file where the folder should be");
  on_sleep_ = [this] { terminate_ = slept_ == absl::Seconds(1); };
  int withdrawn = 0;
  OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
    const bool first = rank.config.rank.value() == 0;
    WatchedGroup control(*rank.control, [&] {
      if (first && terminate_.exchange(false)) ++withdrawn;
    });
    const std::string run_folder = folder_ / (first ? "first" : "second");
    std::filesystem::create_directory(run_folder);
    const TrainResult result = Run(rank.config, engine, control, run_folder, {});
    EXPECT_EQ(result.reason, ExitReason::kCheckpointFailed);
  });
  EXPECT_EQ(withdrawn, 1);
  EXPECT_EQ(slept_, absl::Seconds(1 + 3 + 9 + 27));
}

TEST_F(TrainLoopTest, AResumedRunThatIsStoppedAtOnceHasNothingToSave) {
  terminate_ = true;
  const TrainResult result = Run(TrainState{.step = 3, .updates = 3, .consumed_samples = 18});
  EXPECT_EQ(result.reason, ExitReason::kCancelled);
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_THAT(Saved(), IsEmpty());
}

// Whoever sends the signal, the steps since the last checkpoint are saved.
TEST_F(TrainLoopTest, ASignalAsksForACheckpoint) {
  Evaluate();
  config_.checkpoint_interval = 0;
  on_evaluation_ = [this](OpId, int64_t) { terminate_ = true; };
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCancelled);
  EXPECT_EQ(result.state.step, 2);
  EXPECT_THAT(Saved(), ElementsAre(2));
}

// A trainer that nobody can reach trains on until it would save behind a newer attempt.
TEST_F(TrainLoopTest, AnAttemptEndsOnceANewerOneHasBegun) {
  config_.epoch = 4;
  config_.checkpoint_interval = 2;
  ASSERT_TRUE(RaiseFence(config_.checkpoint_folder, {Epoch(5), config_.job_uid}).ok());
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kStaleEpoch);
  EXPECT_EQ(result.status, absl::AbortedError("a newer attempt of this job has begun"));
  EXPECT_THAT(Steps(), ElementsAre("1", "2"));
  EXPECT_THAT(Saved(), IsEmpty());
}

// One that saves only at its end finds out without that.
TEST_F(TrainLoopTest, AnAttemptThatDoesNotSaveEndsOnceANewerOneHasBegun) {
  config_.epoch = 4;
  config_.checkpoint_interval = 0;
  config_.steps = 5000;
  fence_interval_ = absl::Milliseconds(1);
  Evaluate();
  on_evaluation_ = [this, raised = false](OpId, int64_t) mutable {
    if (std::exchange(raised, true)) return;
    EXPECT_TRUE(RaiseFence(config_.checkpoint_folder, {Epoch(5), config_.job_uid}).ok());
  };
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kStaleEpoch);
  EXPECT_EQ(result.status, absl::AbortedError("a newer attempt of this job has begun"));
  const auto folders = ListJobFolder(config_.checkpoint_folder);
  ASSERT_TRUE(folders.ok()) << folders.status();
  EXPECT_EQ(folders->size(), 1u) << "it saved something";
}

// The one that was due could not be written, so the one that is asked for is.
TEST_F(TrainLoopTest, AFailedCheckpointDoesNotCountAsTheNewest) {
  config_.checkpoint_interval = 2;
  Evaluate();
  Spill(config_.checkpoint_folder, "a file where the folder should be");
  on_evaluation_ = [this](OpId, int64_t) { terminate_ = true; };
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCancelled);
  // The stop is not clean, because step 2 is lost.
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.status.message()),
              testing::AllOf(testing::HasSubstr("stopped after step 2, but the checkpoint of the "
                                                "steps after 0 could not be written: "),
                             testing::HasSubstr(config_.checkpoint_folder)));
  std::vector<int64_t> tries;
  const auto reports = ReadAfter(folder_ / "reports.log", 0);
  for (const v1alpha1::RankReport& report : *reports) {
    if (report.has_checkpoint()) tries.push_back(report.checkpoint().step());
  }
  EXPECT_THAT(tries, ElementsAre(2, 2));
}

TEST_F(TrainLoopTest, ACheckpointNamesItsRunAndWhatThatContinued) {
  config_.job_uid = "0123abcd";
  config_.epoch = 4;
  config_.steps = 1;
  TrainState state;
  state.parent = ParentState{.job_uid = "another", .epoch = 3, .step = 7};
  Run(state);
  const TrainingState saved =
      Checkpoint::Open(config_.checkpoint_folder + "/step-00000001").value().manifest().state;
  EXPECT_EQ(saved.job_uid, "0123abcd");
  EXPECT_EQ(saved.epoch, 4);
  EXPECT_EQ(saved.parent, state.parent);
}

// Report and recorded intervals agree, and what the step did lies within it.
TEST_F(TrainLoopTest, RecordsEveryStep) {
  Run();
  TraceReader reader = TraceReader::Open(folder_.path(), 0, 0).value();
  std::vector<int64_t> steps;
  int64_t end = 0;
  for (auto record = reader.Next(); record.ok() && record->has_value(); record = reader.Next()) {
    if (!(*record)->has_step()) continue;
    const v1alpha1::TraceStep& step = (*record)->step();
    steps.push_back(step.step());
    EXPECT_EQ(step.report().step(), step.step());
    if (end > 0) {
      EXPECT_EQ(step.begin_nanoseconds(), end);
    }
    end = step.end_nanoseconds();
    double seconds = 0;
    for (const auto& entry : step.report().ledger().entries()) seconds += entry.seconds();
    EXPECT_NEAR(seconds, static_cast<double>(end - step.begin_nanoseconds()) * 1e-9, 1e-9);
    EXPECT_EQ(step.data_waits().begin_nanoseconds_size(), 1);
    EXPECT_EQ(step.checkpoint_waits().begin_nanoseconds_size(), 1);
    for (int i = 0; i < step.operations().begin_nanoseconds_size(); ++i) {
      const int64_t begin = step.operations().begin_nanoseconds(i);
      EXPECT_GE(begin, 0);
      EXPECT_LE(begin + step.operations().duration_nanoseconds(i), end - step.begin_nanoseconds());
    }
  }
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(TrainLoopTest, EvaluatesAfterEveryIntervalAndTheLastStep) {
  Evaluate();
  config_.steps = 5;
  EXPECT_EQ(Run().reason, ExitReason::kCompleted);
  EXPECT_THAT(Evaluated(), ElementsAre(2, 4, 5));
  double best = std::numeric_limits<double>::infinity();
  for (const v1alpha1::StepReport& step : StepReports()) {
    double seconds = 0, evaluation = 0;
    for (const auto& entry : step.ledger().entries()) {
      seconds += entry.seconds();
      if (entry.part() == v1alpha1::Ledger::EVALUATION) evaluation += entry.seconds();
    }
    EXPECT_NEAR(seconds, step.wall_seconds(), 0.01 * seconds + 1e-4);
    EXPECT_EQ(evaluation, step.has_evaluation() ? step.evaluation().seconds() : 0);
    if (!step.has_evaluation()) continue;
    EXPECT_GT(evaluation, 0);
    EXPECT_GT(step.evaluation().loss(), 0);
    EXPECT_EQ(step.evaluation().perplexity(), std::exp(step.evaluation().loss()));
    EXPECT_EQ(step.evaluation().tokens(), 16);
    best = std::min(best, step.evaluation().loss());
    EXPECT_EQ(step.evaluation().best_loss(), best);
  }
}

// It neither changes what training computes nor moves its place in the data.
TEST_F(TrainLoopTest, EvaluationLeavesTrainingAsItIs) {
  const auto losses = [&] {
    std::filesystem::remove(folder_ / "reports.log");
    EXPECT_EQ(Run().reason, ExitReason::kCompleted);
    std::vector<double> losses;
    for (const v1alpha1::StepReport& step : StepReports()) losses.push_back(step.loss());
    return losses;
  };
  const std::vector<double> without = losses();
  Evaluate();
  EXPECT_EQ(losses(), without);
}

TEST_F(TrainLoopTest, TheCheckpointOfAStepHasItsEvaluation) {
  Evaluate({.patience = 100});
  Run();
  EXPECT_EQ(SavedState(1), HeldOutState{});
  for (const v1alpha1::StepReport& step : StepReports()) {
    if (!step.has_evaluation()) continue;
    EXPECT_EQ(SavedState(step.step()).of, "a batch");
    EXPECT_EQ(SavedState(step.step()).best_loss, step.evaluation().best_loss());
  }
}

TEST_F(TrainLoopTest, ALossThatStopsImprovingEndsTheJobWithACheckpoint) {
  Evaluate({.patience = 2, .min_improvement = 1e6});
  config_.steps = 10;
  config_.checkpoint_interval = 0;
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kEarlyStopped);
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_EQ(result.state.step, 6);
  EXPECT_THAT(Evaluated(), ElementsAre(2, 4, 6));
  EXPECT_THAT(Saved(), ElementsAre(6));
}

TEST_F(TrainLoopTest, WhatWasCountedBeforeAResumeCounts) {
  Evaluate({.patience = 3});
  config_.steps = 20;
  config_.checkpoint_interval = 0;
  TrainState state;
  state.held_out = {.of = "a batch", .best_loss = 0.5, .better_loss = 0.5, .without_better = 1};
  const TrainResult result = Run(state);
  EXPECT_EQ(result.reason, ExitReason::kEarlyStopped);
  EXPECT_EQ(result.state.step, 4);
  EXPECT_EQ(result.state.held_out.without_better, 3);
  const double loss = StepReports().back().evaluation().loss();
  EXPECT_EQ(result.message, absl::StrFormat("step 4 of 20: held-out loss %.4f, not below 0.5000 in "
                                            "3 evaluations; the lowest was 0.5000",
                                            loss));
  EXPECT_THAT(Evaluated(), ElementsAre(2, 4));
  EXPECT_THAT(Saved(), ElementsAre(4));
  EXPECT_EQ(SavedState(4), result.state.held_out);
}

TEST_F(TrainLoopTest, WhatWasCountedOfOtherDataDoesNot) {
  Evaluate({.patience = 3});
  TrainState state;
  state.held_out = {.of = "another", .best_loss = 0.5, .better_loss = 0.5, .without_better = 2};
  const TrainResult result = Run(state);
  EXPECT_EQ(result.reason, ExitReason::kCompleted);
  EXPECT_GT(result.state.held_out.best_loss, 0.5);
}

TEST_F(TrainLoopTest, TheLastStepIsNoEarlyStop) {
  Evaluate({.patience = 1});
  config_.steps = 2;
  TrainState state;
  state.held_out = {.of = "a batch", .best_loss = 0.5, .better_loss = 0.5, .without_better = 0};
  EXPECT_EQ(Run(state).reason, ExitReason::kCompleted);
}

TEST_F(TrainLoopTest, AStopInTheLastEvaluationIsNoCompletion) {
  Evaluate();
  config_.evaluation.batches = 6;  // two runs of three
  config_.steps = 2;
  on_evaluation_ = [this](OpId, int64_t) { terminate_ = true; };
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kCancelled);
  EXPECT_EQ(result.status, absl::OkStatus());
  EXPECT_EQ(result.state.step, 2);
  EXPECT_THAT(Steps(), ElementsAre("1", "2"));
  EXPECT_THAT(Evaluated(), IsEmpty());
  EXPECT_THAT(Saved(), ElementsAre(1, 2));
}

// Those of an evaluation are not of the program whose text tells what a number means.
TEST_F(TrainLoopTest, AnEvaluationHasNoOperationOfTheStep) {
  config_.steps = 1;
  Run();
  EXPECT_EQ(ReadFlightRecord(folder_ / "flight.bin")->last_operation, 7);
  Evaluate();
  Run();
  EXPECT_EQ(ReadFlightRecord(folder_ / "flight.bin")->last_operation, -1);
}

TEST_F(TrainLoopTest, AStepThatFailsIsNotEvaluated) {
  Evaluate();
  config_.optimizer.learning_rate = config_.optimizer.min_learning_rate = 1e30;
  config_.optimizer.max_skipped_updates = 1;
  EXPECT_EQ(Run().reason, ExitReason::kNonFiniteGradients);
  EXPECT_THAT(Steps(), ElementsAre("1", "2 skipped"));
  EXPECT_THAT(Evaluated(), IsEmpty());
}

TEST_F(TrainLoopTest, ATraceHasWhatAnEvaluationTook) {
  Evaluate();
  Run();
  TraceReader reader = TraceReader::Open(folder_.path(), 0, 0).value();
  int steps = 0, evaluations = 0;
  auto record = reader.Next();
  for (; record.ok() && record->has_value(); record = reader.Next()) {
    if (!(*record)->has_step()) continue;
    const v1alpha1::TraceStep& step = (*record)->step();
    const auto& spans = step.evaluations();
    ++steps;
    evaluations += spans.begin_nanoseconds_size();
    ASSERT_EQ(spans.begin_nanoseconds_size(), step.report().has_evaluation() ? 1 : 0);
    for (int i = 0; i < spans.begin_nanoseconds_size(); ++i) {
      // Behind the step's last operation, before its checkpoint.
      const int last = step.operations().begin_nanoseconds_size() - 1;
      EXPECT_GE(spans.begin_nanoseconds(i), step.operations().begin_nanoseconds(last) +
                                                step.operations().duration_nanoseconds(last));
      EXPECT_LE(spans.begin_nanoseconds(i) + spans.duration_nanoseconds(i),
                step.checkpoint_waits().begin_nanoseconds(0));
    }
  }
  EXPECT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(evaluations, 3);
}

TEST_F(TrainLoopTest, ReportsWhatTheModelTakesAndWhatCheckpointsCost) {
  config_.steps = 1;
  ASSERT_EQ(Run().reason, ExitReason::kCompleted);
  const auto reports = ReadAfter(folder_ / "reports.log", 0);
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_EQ(reports->size(), 3u);  // the first operation, the checkpoint, the step
  // 48 tokens of 6 (16 48 + 16^2 + 2 16 32 + 16 100) + 6 16 8, see mfu_test.cc.
  EXPECT_EQ((*reports)[2].step().model_flops(), 48 * 22656);

  const v1alpha1::CheckpointReport& checkpoint = (*reports)[1].checkpoint();
  EXPECT_TRUE(checkpoint.ok());
  EXPECT_GT(checkpoint.seconds(), 0);
  const std::string folder = config_.checkpoint_folder + "/" + checkpoint.name();
  EXPECT_EQ(checkpoint.bytes(),
            static_cast<int64_t>(std::filesystem::file_size(folder + "/rank-00000.safetensors")));
}

// The first update makes weights of which the next steps' activations overflow.
TEST_F(TrainLoopTest, TooManyNormsInARowThatAreNotFiniteFailTheJobAndTheLastSavesNothing) {
  config_.optimizer.learning_rate = config_.optimizer.min_learning_rate = 1e30;
  config_.optimizer.max_skipped_updates = 3;
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kNonFiniteGradients);
  EXPECT_EQ(result.status,
            absl::FailedPreconditionError("step 4: the gradient norm was not finite 3 times in a "
                                          "row, expected fewer than 3"));
  EXPECT_EQ(result.state.step, 4);
  EXPECT_EQ(result.state.updates, 1);
  EXPECT_THAT(Steps(), ElementsAre("1", "2 skipped", "3 skipped", "4 skipped"));
  EXPECT_THAT(Saved(), ElementsAre(1, 2, 3));
}

TEST_F(TrainLoopTest, UpdatesAtOnceLeaveNothingOfTheStepThatFails) {
  config_.optimizer.learning_rate = config_.optimizer.min_learning_rate = 1e30;
  config_.optimizer.clip_norm = 0;
  config_.optimizer.max_skipped_updates = 1;
  config_.engine.update_at_once = true;
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kNonFiniteGradients);
  EXPECT_EQ(result.status,
            absl::FailedPreconditionError("step 2: the gradient norm was not finite 1 times in a "
                                          "row, expected fewer than 1"));
  EXPECT_THAT(Steps(), ElementsAre("1", "2 made"));
  EXPECT_EQ(result.state.updates, 2);
  EXPECT_THAT(Saved(), ElementsAre(1));
}

// Neither does the last step, which is always due.
TEST_F(TrainLoopTest, AStepThatFailsSavesNothingWhereItIsTheLast) {
  config_.optimizer.learning_rate = config_.optimizer.min_learning_rate = 1e30;
  config_.optimizer.clip_norm = 0;
  config_.optimizer.max_skipped_updates = 1;
  config_.engine.update_at_once = true;
  config_.steps = 2;
  config_.checkpoint_interval = 0;
  EXPECT_EQ(Run().reason, ExitReason::kNonFiniteGradients);
  EXPECT_THAT(Saved(), IsEmpty());
}

}  // namespace
}  // namespace stretto::trainer

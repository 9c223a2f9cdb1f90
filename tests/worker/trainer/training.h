// SPDX-License-Identifier: Apache-2.0
#pragma once
// The train loop in this process, most often of a job of one rank, and what it left behind.

#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/comm/local/local.h"
#include "worker/trainer/held_out_data.h"
#include "worker/trainer/plan/writers.h"
#include "worker/trainer/train_loop.h"

namespace stretto::trainer {

// No daemon listens, and none is missed.
class TrainingTest : public TinyJobTest {
 protected:
  TrainingTest() {
    config_.job_id = "job";
    config_.steps = 6;
    config_.checkpoint_folder = folder_ / "checkpoints";
    config_.checkpoint_interval = 1;
    config_.checkpoint_keep = 10;
  }

  // Held-out data is the training data, of which a batch is measured every other step.
  void Evaluate(EarlyStopRule rule = {}) {
    config_.evaluation = {
        .interval_steps = 2, .batches = 1, .prefix = "text", .early_stop = rule, .of = "a batch"};
  }

  TrainResult Run(const TrainState& state = {}) {
    const auto engine = MakeEngine();
    EXPECT_TRUE(engine->Initialise(1).ok());
    return Run(*engine, state);
  }
  TrainResult Run(RankEngine& engine, const TrainState& state) {
    const auto group = LocalGroup::Create(1);
    return Run(config_, engine, *group[0], folder_.path(), state);
  }
  // One of the ranks of `control`, in a run folder of its own.
  TrainResult Run(const JobConfig& config, RankEngine& engine, Communicator& control,
                  const std::string& run_folder, const TrainState& state) {
    HeldOutData held_out;
    std::unique_ptr<Evaluation> evaluation;
    if (config.evaluates()) {
      held_out = OpenHeldOut(config, TrainingData::Open(config.data).value()).value();
      evaluation = Evaluation::Create(config, *held_out.sampler, engine, {}, control, *backend_,
                                      on_evaluation_)
                       .value();
    }
    DaemonLink link(folder_ / "no.sock", "uid", 1, config.rank.value());
    if (on_link_ && config.rank.value() == 0) on_link_(link);
    Reporter reporter(ReportLog::Open(run_folder + "/reports.log").value(), link, config);
    FlightRecorder flight = FlightRecorder::Create(run_folder + "/flight.bin").value();
    flight.SetOperation(FlightLane::kCompute, 7, absl::Nanoseconds(1));  // as steps do
    TraceRecorder trace(run_folder, engine.program());
    std::optional<Snapshot> snapshot;
    if (asynchronous_)
      snapshot.emplace(*Snapshot::Make(Writers(config.engine).BytesOf(config.rank)));
    return Train({.config = config,
                  .sampler = *sampler_,
                  .engine = engine,
                  .evaluation = evaluation.get(),
                  .control = control,
                  .reporter = reporter,
                  .flight = flight,
                  .trace = trace,
                  .link = link,
                  .lease = absl::InfiniteDuration(),
                  .tokenizer_hash = "",
                  .attachments = {{"model.json", "{}"}},
                  .snapshot = snapshot.has_value() ? &*snapshot : nullptr,
                  .files = files_,
                  .fence_interval = fence_interval_,
                  .terminate = terminate_,
                  .sleep =
                      [this, first = config.rank.value() == 0](absl::Duration pause) {
                        if (!first) return;
                        slept_ += pause;
                        if (on_sleep_) on_sleep_();
                      }},
                 state);
  }

  std::vector<v1alpha1::StepReport> StepReports() {
    std::vector<v1alpha1::StepReport> steps;
    const auto reports = ReadAfter(folder_ / "reports.log", 0);
    EXPECT_TRUE(reports.ok()) << reports.status();
    for (const v1alpha1::RankReport& report : *reports) {
      if (report.has_step()) steps.push_back(report.step());
    }
    return steps;
  }
  // Steps with an evaluation.
  std::vector<int64_t> Evaluated() {
    std::vector<int64_t> evaluated;
    for (const v1alpha1::StepReport& step : StepReports()) {
      if (step.has_evaluation()) evaluated.push_back(step.step());
    }
    return evaluated;
  }
  HeldOutState SavedState(int64_t step) {
    const std::string folder = config_.checkpoint_folder + "/" + CheckpointName(step);
    return Checkpoint::Open(folder).value().manifest().state.held_out;
  }

  // By the report log: "NUMBER", and what became of its update where its norm was not finite:
  // " skipped" or " made".
  std::vector<std::string> Steps() {
    std::vector<std::string> steps;
    const auto reports = ReadAfter(folder_ / "reports.log", 0);
    EXPECT_TRUE(reports.ok()) << reports.status();
    for (const v1alpha1::RankReport& report : *reports) {
      if (!report.has_step()) continue;
      const v1alpha1::StepReport& step = report.step();
      EXPECT_EQ(std::isfinite(step.grad_norm()), !step.norm_not_finite());
      EXPECT_TRUE(step.norm_not_finite() || !step.update_skipped());
      std::string text = std::to_string(step.step());
      if (step.norm_not_finite()) text += step.update_skipped() ? " skipped" : " made";
      steps.push_back(text);
    }
    return steps;
  }

  // Checkpoint reports: "STEP answers REQUEST", or "STEP failed, answers REQUEST".
  std::vector<std::string> CheckpointReports(const std::string& run_folder) {
    std::vector<std::string> checkpoints;
    const auto reports = ReadAfter(run_folder + "/reports.log", 0);
    EXPECT_TRUE(reports.ok()) << reports.status();
    for (const v1alpha1::RankReport& report : *reports) {
      if (!report.has_checkpoint()) continue;
      checkpoints.push_back(absl::StrCat(report.checkpoint().step(),
                                         report.checkpoint().ok() ? "" : " failed,", " answers ",
                                         report.checkpoint().request()));
    }
    return checkpoints;
  }

  // The steps of the checkpoints that are there.
  std::vector<int64_t> Saved() {
    std::vector<int64_t> saved;
    for (int64_t step = 0; step <= config_.steps; ++step) {
      const std::string folder = config_.checkpoint_folder + "/" + CheckpointName(step);
      if (std::filesystem::exists(folder)) saved.push_back(step);
    }
    return saved;
  }

  bool asynchronous_ = false;  // checkpoints
  CheckpointFiles files_;
  absl::Duration fence_interval_ = absl::Hours(1);
  OnBegin on_evaluation_;                     // at its operations
  std::function<void(DaemonLink&)> on_link_;  // of rank 0, before it trains
  std::atomic<bool> terminate_ = false;
  absl::Duration slept_;  // by rank 0
  std::function<void()> on_sleep_;
};

}  // namespace stretto::trainer

// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CertificatesOfMetricsTest, TheyAreReadAtEveryScrape) {
  FakeClock clock;
  std::vector<tls::Lifetime> lifetimes;
  Metrics metrics({.worker = "a", .certificates = [&] { return lifetimes; }}, clock);
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("stretto_certificate_end_timestamp_seconds{")));
  lifetimes = {{"own", absl::FromUnixSeconds(1000), absl::FromUnixSeconds(2000)}};
  EXPECT_THAT(metrics.Text(),
              HasSubstr("stretto_certificate_begin_timestamp_seconds{certificate=\"own\"} 1000\n"));
  EXPECT_THAT(metrics.Text(),
              HasSubstr("stretto_certificate_end_timestamp_seconds{certificate=\"own\"} 2000\n"));
}

v1::RankReport Step(double seconds, double loss) {
  v1::RankReport report;
  report.set_job_id("gpt");
  report.set_rank(1);
  v1::StepReport* step = report.mutable_step();
  step->set_wall_seconds(seconds);
  step->set_loss(loss);
  step->set_grad_norm(0.5);
  step->set_tokens(256);
  step->mutable_ledger()->set_communication_seconds(0.25);
  step->mutable_ledger()->set_hidden_seconds(0.125);
  step->mutable_ledger()->set_preempted_seconds(0.0625);
  step->mutable_ledger()->set_involuntary_switches(3);
  v1::Ledger::Entry* entry = step->mutable_ledger()->add_entries();
  entry->set_part(v1::Ledger::EXPOSED);
  entry->set_group("tp");
  entry->set_phase("backward");
  entry->set_seconds(0.125);
  return report;
}

v1::RankReport Checkpoint(bool ok, int64_t seconds) {
  v1::RankReport report;
  report.set_job_id("gpt");
  report.mutable_checkpoint()->set_ok(ok);
  report.mutable_checkpoint()->mutable_time()->set_seconds(seconds);
  return report;
}

v1::RankReport Exit(int rank = 1, const std::string& reason = "") {
  v1::RankReport report;
  report.set_job_id("gpt");
  report.set_rank(rank);
  report.mutable_exit()->set_reason(reason);
  return report;
}

// A step of rank 0 of which 6 seconds are progress, in three parts, and 4 are not.
v1::RankReport Progress(int64_t number) {
  v1::RankReport report;
  report.set_job_id("gpt");
  v1::StepReport* step = report.mutable_step();
  step->set_step(number);
  step->set_wall_seconds(10);
  for (const auto& [part, seconds] :
       std::vector<std::pair<v1::Ledger::Part, double>>{{v1::Ledger::COMPUTE_HIDING, 1},
                                                        {v1::Ledger::EXPOSED, 2},
                                                        {v1::Ledger::IDLE, 3},
                                                        {v1::Ledger::DATA_WAIT, 1.5},
                                                        {v1::Ledger::EVALUATION, 0.25},
                                                        {v1::Ledger::CHECKPOINT_WAIT, 2.25}}) {
    step->mutable_ledger()->add_entries()->set_part(part);
    step->mutable_ledger()->mutable_entries()->rbegin()->set_seconds(seconds);
  }
  return report;
}

class MetricsTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  Metrics metrics_{{"node-a", absl::Minutes(5)}, clock_};
};

TEST_F(MetricsTest, StepsBecomeCountersHistogramAndGauges) {
  metrics_.Record(Step(0.02, 4));
  v1::RankReport second = Step(0.2, 3);
  second.mutable_step()->set_update_skipped(true);
  metrics_.Record(second);
  const std::string text = metrics_.Text();
  const std::string labels = "{training_job=\"gpt\",rank=\"1\"} ";
  EXPECT_THAT(text, HasSubstr("stretto_steps_total" + labels + "2\n"));
  EXPECT_THAT(text, HasSubstr("stretto_tokens_total" + labels + "512\n"));
  EXPECT_THAT(text, HasSubstr("stretto_updates_skipped_total" + labels + "1\n"));
  EXPECT_THAT(text, HasSubstr("stretto_loss" + labels + "3\n"));
  EXPECT_THAT(text, HasSubstr("stretto_grad_norm" + labels + "0.5\n"));
  EXPECT_THAT(text, HasSubstr("stretto_communication_seconds_total" + labels + "0.5\n"));
  EXPECT_THAT(text, HasSubstr("stretto_communication_hidden_seconds_total" + labels + "0.25\n"));
  EXPECT_THAT(text, HasSubstr("stretto_preempted_seconds_total" + labels + "0.125\n"));
  EXPECT_THAT(text, HasSubstr("stretto_involuntary_switches_total" + labels + "6\n"));
  EXPECT_THAT(text,
              HasSubstr("stretto_step_ledger_seconds_total{training_job=\"gpt\",rank=\"1\",part="
                        "\"exposed\",group=\"tp\",phase=\"backward\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("stretto_step_seconds_count" + labels + "2\n"));
  EXPECT_THAT(
      text,
      HasSubstr("stretto_step_seconds_bucket{training_job=\"gpt\",rank=\"1\",le=\"0.01\"} 0\n"));
  EXPECT_THAT(
      text,
      HasSubstr("stretto_step_seconds_bucket{training_job=\"gpt\",rank=\"1\",le=\"0.025\"} 1\n"));
  EXPECT_THAT(
      text,
      HasSubstr("stretto_step_seconds_bucket{training_job=\"gpt\",rank=\"1\",le=\"+Inf\"} 2\n"));
}

TEST_F(MetricsTest, SaysWhenTheLastStepWas) {
  v1::RankReport step = Step(0.02, 4);
  step.mutable_step()->mutable_end_time()->set_seconds(1700000000);
  step.mutable_step()->mutable_end_time()->set_nanos(500000000);
  metrics_.Record(step);
  EXPECT_THAT(metrics_.Text(),
              HasSubstr("stretto_last_step_timestamp_seconds{training_job=\"gpt\",rank=\"1\"} "
                        "1700000000.5\n"));
}

TEST_F(MetricsTest, CheckpointsAreRankZeros) {
  v1::RankReport prepared;
  prepared.set_job_id("gpt");
  prepared.mutable_prepared();
  metrics_.Record(prepared);
  const std::string labels = "{training_job=\"gpt\",rank=\"0\"} ";
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_checkpoints_failed_total" + labels + "0\n"));
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("stretto_checkpoint_timestamp_seconds{")));

  v1::RankReport complete = Checkpoint(true, 1700000100), failed = Checkpoint(false, 1700000200);
  complete.mutable_checkpoint()->set_seconds(1.5);
  complete.mutable_checkpoint()->set_bytes(4096);
  failed.mutable_checkpoint()->set_seconds(0.25);
  metrics_.Record(complete);
  metrics_.Record(failed);
  EXPECT_THAT(metrics_.Text(),
              HasSubstr("stretto_checkpoint_timestamp_seconds" + labels + "1700000100\n"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_checkpoints_total" + labels + "1\n"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_checkpoints_failed_total" + labels + "1\n"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_checkpoint_seconds_total" + labels + "1.75\n"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_checkpoint_bytes_total" + labels + "4096\n"));

  metrics_.Record(Step(0.02, 4));
  EXPECT_THAT(metrics_.Text(),
              Not(HasSubstr("stretto_checkpoints_total{training_job=\"gpt\",rank=\"1\"}")));
}

TEST_F(MetricsTest, StepsBehindTheLastCheckpointAreLostUnlessTheJobIsComplete) {
  const std::string lost = "stretto_lost_seconds_total{training_job=\"gpt\",rank=\"0\"} ";
  const auto checkpoint = [](int64_t step, bool ok) {
    v1::RankReport report = Checkpoint(ok, 1700000100);
    report.mutable_checkpoint()->set_step(step);
    return report;
  };
  metrics_.Record(Progress(1));
  metrics_.Record(checkpoint(2, true));  // comes before the report of its step
  metrics_.Record(Progress(2));
  metrics_.Record(Progress(3));
  metrics_.Record(checkpoint(4, false));
  metrics_.Record(Progress(4));
  EXPECT_THAT(metrics_.Text(), HasSubstr(lost + "0\n"));
  metrics_.Record(Exit(0, "Killed"));
  EXPECT_THAT(metrics_.Text(), HasSubstr(lost + "12\n"));

  metrics_.Record(Progress(5));
  metrics_.Record(Exit(0, "Completed"));
  EXPECT_THAT(metrics_.Text(), HasSubstr(lost + "12\n"));
}

// It was asynchronous, so steps that it does not have are reported before it.
TEST_F(MetricsTest, StepsThatTrainingDidWhileACheckpointWasWrittenAreLost) {
  for (int64_t step : {1, 2, 3}) metrics_.Record(Progress(step));
  v1::RankReport report = Checkpoint(true, 1700000100);
  report.mutable_checkpoint()->set_step(2);
  metrics_.Record(report);
  metrics_.Record(Progress(4));
  metrics_.Record(Exit(0, "Killed"));
  EXPECT_THAT(metrics_.Text(),
              HasSubstr("stretto_lost_seconds_total{training_job=\"gpt\",rank=\"0\"} 12\n"));
}

// Of 5,000 steps without a checkpoint all are lost, although not each is remembered.
TEST_F(MetricsTest, AnyNumberOfStepsIsLost) {
  for (int64_t step = 1; step <= 5000; ++step) metrics_.Record(Progress(step));
  metrics_.Record(Exit(0, "Killed"));
  EXPECT_THAT(metrics_.Text(),
              HasSubstr("stretto_lost_seconds_total{training_job=\"gpt\",rank=\"0\"} 30000\n"));
}

TEST_F(MetricsTest, AnEarlyStopLosesNothing) {
  metrics_.Record(Progress(1));
  metrics_.Record(Exit(0, "EarlyStopped"));
  EXPECT_THAT(metrics_.Text(),
              HasSubstr("stretto_lost_seconds_total{training_job=\"gpt\",rank=\"0\"} 0\n"));
}

TEST_F(MetricsTest, HeldOutLossIsThatOfTheLastEvaluation) {
  const std::string labels = "{training_job=\"gpt\",rank=\"1\"} ";
  metrics_.Record(Step(0.02, 4));
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("stretto_eval_")));
  for (double loss : {3.0, 2.5}) {
    v1::RankReport report = Step(0.02, 4);
    v1::Evaluation& evaluation = *report.mutable_step()->mutable_evaluation();
    evaluation.set_loss(loss);
    evaluation.set_perplexity(2 * loss);
    evaluation.set_seconds(0.25);
    metrics_.Record(report);
  }
  metrics_.Record(Step(0.02, 4));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_eval_loss" + labels + "2.5\n"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_eval_perplexity" + labels + "5\n"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_eval_seconds_total" + labels + "0.5\n"));
}

TEST_F(MetricsTest, ModelFlopsAreCountedAndPeaksShownWhereKnown) {
  v1::RankReport prepared;
  prepared.set_job_id("gpt");
  prepared.set_rank(1);
  prepared.mutable_prepared()->set_peak_flops(989.4e12);
  const std::string labels = "{training_job=\"gpt\",rank=\"1\"} ";
  for (double flops : {1e12, 2e12}) {
    v1::RankReport step = Step(0.02, 4);
    step.mutable_step()->set_model_flops(flops);
    metrics_.Record(step);
  }
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_model_flops_total" + labels + "3000000000000\n"));
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("stretto_peak_flops_per_second{")));
  metrics_.Record(prepared);
  EXPECT_THAT(metrics_.Text(),
              HasSubstr("stretto_peak_flops_per_second" + labels + "989400000000000\n"));
}

TEST_F(MetricsTest, MemoryIsThatOfArenasAndOfTheProcess) {
  std::vector<TrainerMemory> trainers = {{.job_id = "gpt", .rank = 1, .resident_bytes = 3000}};
  Metrics metrics({.worker = "w", .trainers = [&] { return trainers; }}, clock_);
  v1::RankReport prepared;
  prepared.set_job_id("gpt");
  prepared.set_rank(1);
  v1::Arena* arena = prepared.mutable_prepared()->add_arenas();
  arena->set_arena("gradient");
  arena->set_bytes(2000);
  metrics.Record(prepared);
  EXPECT_THAT(metrics.Text(), HasSubstr("stretto_arena_bytes{training_job=\"gpt\",rank=\"1\","
                                        "arena=\"gradient\"} 2000\n"));
  const std::string resident =
      "stretto_trainer_resident_bytes{training_job=\"gpt\",rank=\"1\"} 3000\n";
  EXPECT_THAT(metrics.Text(), HasSubstr(resident));
  // A loss of no step would be a lie.
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("stretto_loss")));
  trainers.clear();
  EXPECT_THAT(metrics.Text(), Not(HasSubstr("stretto_trainer_resident_bytes")));
}

TEST_F(MetricsTest, SeriesOfAJobGoAwaySomeMinutesAfterItEnds) {
  metrics_.Record(Step(0.02, 4));
  metrics_.Record(Exit());
  clock_.Advance(absl::Minutes(4));
  EXPECT_THAT(metrics_.Text(), HasSubstr("training_job=\"gpt\""));
  clock_.Advance(absl::Minutes(1));
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("training_job=\"gpt\"")));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_build_info{version=\""));
}

TEST_F(MetricsTest, ANewAttemptKeepsTheSeries) {
  metrics_.Record(Step(0.02, 4));
  metrics_.Record(Exit());
  clock_.Advance(absl::Minutes(4));
  metrics_.Record(Step(0.02, 4));
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_steps_total{training_job=\"gpt\",rank=\"1\"} 2"));
}

TEST_F(MetricsTest, NodeGauges) {
  metrics_.SetTrainers(3);
  metrics_.SetConnected(true);
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_trainers 3\n"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("stretto_coordinator_connected 1\n"));
}

TEST_F(MetricsTest, GpusAreAskedAtEveryScrape) {
  std::vector<Gpu> gpus = {{.index = 1,
                            .uuid = "GPU-b",
                            .name = "H200",
                            .memory_bytes = 2000,
                            .memory_used_bytes = 500,
                            .ecc_uncorrected = 3,
                            .xid_errors = 2,
                            .fault = ""}};
  Metrics metrics({.worker = "w", .gpus = [&] { return gpus; }}, clock_);
  const std::string labels = "{gpu=\"1\",uuid=\"GPU-b\"} ";
  EXPECT_THAT(metrics.Text(), HasSubstr("stretto_gpu_healthy" + labels + "1\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("stretto_gpu_memory_bytes" + labels + "2000\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("stretto_gpu_memory_used_bytes" + labels + "500\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("stretto_gpu_ecc_uncorrected_total" + labels + "3\n"));
  EXPECT_THAT(metrics.Text(), HasSubstr("stretto_gpu_xid_errors_total" + labels + "2\n"));

  gpus[0].fault = "Xid 79";
  EXPECT_THAT(metrics.Text(), HasSubstr("stretto_gpu_healthy" + labels + "0\n"));
}

TEST_F(MetricsTest, NodeWithoutGpusShowsNone) {
  EXPECT_THAT(metrics_.Text(), Not(HasSubstr("stretto_gpu")));
}

}  // namespace
}  // namespace stretto::daemon

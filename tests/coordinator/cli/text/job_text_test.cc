// SPDX-License-Identifier: Apache-2.0

// Jobs, ledgers, tables and times as people read them.
#include "coordinator/cli/text/job_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/text/ledger_table.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/text/times.h"
#include "proto/base/nearest_name.h"
#include "proto/base/printable.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using v1alpha1::Job;
using v1alpha1::Ledger;

void AddEntry(Ledger* ledger, Ledger::Part part, const char* group, const char* phase,
              double seconds) {
  Ledger::Entry* entry = ledger->add_entries();
  entry->set_part(part);
  entry->set_group(group);
  entry->set_phase(phase);
  entry->set_seconds(seconds);
}

Ledger SomeLedger() {
  Ledger ledger;
  AddEntry(&ledger, Ledger::COMPUTE_HIDING, "tp", "backward", 3);
  AddEntry(&ledger, Ledger::COMPUTE_HIDING, "tp", "forward", 1.5);
  AddEntry(&ledger, Ledger::COMPUTE_ALONE, "", "forward", 2);
  AddEntry(&ledger, Ledger::COMPUTE_ALONE, "", "optimizer", 1);
  AddEntry(&ledger, Ledger::EXPOSED, "tp", "backward", 0.5);
  AddEntry(&ledger, Ledger::DATA_WAIT, "", "", 0.25);
  AddEntry(&ledger, Ledger::IDLE, "", "", 1.75);
  ledger.set_wall_seconds(10);
  ledger.set_communication_seconds(5);
  ledger.set_hidden_seconds(4.5);
  ledger.set_steps(20);
  return ledger;
}

Job SomeJob() {
  Job job;
  job.set_name("jobs/gpt");
  job.set_uid("u1");
  job.set_state(Job::SUCCEEDED);
  job.set_attempt(1);
  job.set_epoch(7);
  job.mutable_create_time()->set_seconds(1000);
  job.mutable_end_time()->set_seconds(1090);
  job.mutable_spec()->mutable_schedule()->set_name("domino_row");
  job.mutable_spec()->mutable_schedule()->mutable_parameters()->set_slices(2);
  job.mutable_spec()->mutable_parallelism()->set_tp_size(2);
  job.mutable_spec()->set_steps(20);
  job.mutable_progress()->set_steps(20);
  job.mutable_progress()->set_total_steps(20);
  job.mutable_progress()->set_tokens(123'400);
  job.mutable_progress()->set_first_loss(5.5);
  job.mutable_progress()->set_last_loss(2.25);
  job.mutable_progress()->set_tokens_per_second(12'345);
  *job.mutable_progress()->mutable_ledger() = SomeLedger();
  return job;
}

TEST(TableTest, AlignsColumnsAndLeavesNoTrailingBlanks) {
  EXPECT_EQ(Table({"NAME", ">STEP", "NOTE"}, {{"a", "7", ""}, {"longer", "1234", "x"}, {"é", "1"}}),
            "NAME    STEP  NOTE\n"
            "a          7\n"
            "longer  1234  x\n"
            "é          1\n");
}

TEST(LedgerTableTest, ShowsPartsByPhaseAndSumsThem) {
  EXPECT_EQ(LedgerTable(SomeLedger(), true),
            "seconds          forward  backward  optimizer  other   total    share\n"
            "compute, hiding    1.500     3.000          -      -   4.500   45.0 %\n"
            "compute alone      2.000         -      1.000      -   3.000   30.0 %\n"
            "exposed tp             -     0.500          -      -   0.500    5.0 %\n"
            "data wait              -         -          -  0.250   0.250    2.5 %\n"
            "idle                   -         -          -  1.750   1.750   17.5 %\n"
            "total                                                 10.000  100.0 %\n"
            "wall clock 10.000 s over 20 steps; overlap 90.0 %: 4.500 of 5.000 s of communication "
            "hidden (emulated link)\n");
}

// Of a busy machine; where the kernel says nothing, there is no line.
TEST(LedgerTableTest, ShowsForHowLongOthersHadTheCpu) {
  Ledger ledger = SomeLedger();
  EXPECT_EQ(LedgerTable(ledger, false).find("preempted"), std::string::npos);
  ledger.set_preempted_seconds(2.5);
  ledger.set_involuntary_switches(340);
  EXPECT_THAT(LedgerTable(ledger, false),
              HasSubstr("\npreempted 25.0 %: 2.500 s without a CPU, 340 involuntary switches\n"));
}

TEST(StageTableTest, ShowsTheSharesOfEachStagesRanks) {
  v1alpha1::Job job;
  v1alpha1::ParallelismSpec& parallelism = *job.mutable_spec()->mutable_parallelism();
  parallelism.set_tp_size(2);
  parallelism.set_dp_size(1);
  parallelism.set_pp_size(2);
  const auto add = [&](std::vector<std::pair<Ledger::Part, double>> entries) {
    Ledger* ledger = job.mutable_progress()->add_rank_ledgers();
    for (const auto& [part, seconds] : entries)
      AddEntry(ledger, part, part == Ledger::EXPOSED ? "tp" : "", "forward", seconds);
  };
  add({{Ledger::COMPUTE_ALONE, 3}, {Ledger::EXPOSED, 1}});
  add({{Ledger::COMPUTE_ALONE, 1}, {Ledger::EXPOSED, 3}});
  add({{Ledger::COMPUTE_ALONE, 1}, {Ledger::PIPELINE_WAIT, 1}});
  EXPECT_EQ(StageTable(job), "") << "not all ranks have reported";
  add({{Ledger::COMPUTE_ALONE, 2}});
  EXPECT_EQ(StageTable(job),
            "share          stage 0  stage 1\n"
            "compute alone   50.0 %   75.0 %\n"
            "exposed tp      50.0 %        -\n"
            "pipeline wait        -   25.0 %\n");
  EXPECT_THAT(DescribeJob(job, absl::Now(), false), Not(HasSubstr("Ledger of the stages")));
  job.mutable_progress()->mutable_ledger()->add_entries();
  EXPECT_THAT(DescribeJob(job, absl::Now(), false), HasSubstr("\nLedger of the stages\nshare  "));
  parallelism.set_pp_size(1);
  parallelism.set_dp_size(2);
  EXPECT_EQ(StageTable(job), "") << "one stage";
}

TEST(StageTableTest, AStageHasTheRanksOfItsOwnReplicas) {
  v1alpha1::Job job;
  v1alpha1::ParallelismSpec& parallelism = *job.mutable_spec()->mutable_parallelism();
  parallelism.set_dp_size(2);
  parallelism.set_pp_size(2);
  for (int replicas : {2, 1}) {
    v1alpha1::StageSpec& stage = *parallelism.add_stages();
    stage.set_tp_size(1);
    stage.set_dp_size(replicas);
  }
  for (Ledger::Part part : {Ledger::COMPUTE_ALONE, Ledger::COMPUTE_ALONE, Ledger::IDLE})
    AddEntry(job.mutable_progress()->add_rank_ledgers(), part, "", "forward", 1);
  EXPECT_EQ(StageTable(job),
            "share          stage 0  stage 1\n"
            "compute alone  100.0 %        -\n"
            "idle                 -  100.0 %\n");
}

TEST(LedgerTableTest, WithoutCommunicationOrEntriesSaysSo) {
  EXPECT_EQ(LedgerTable(Ledger(), false),
            "seconds  other  total  share\n"
            "total               -      -\n"
            "wall clock 0.000 s over 0 steps; no communication\n");
}

TEST(AgeTest, UsesTheCoarsestUsefulUnit) {
  google::protobuf::Timestamp time;
  EXPECT_EQ(Age(time, absl::FromUnixSeconds(5)), "-");
  time.set_seconds(1000);
  EXPECT_EQ(Age(time, absl::FromUnixSeconds(990)), "0s");
  EXPECT_EQ(Age(time, absl::FromUnixSeconds(1119)), "119s");
  EXPECT_EQ(Age(time, absl::FromUnixSeconds(1000 + 3600)), "60m");
  EXPECT_EQ(Age(time, absl::FromUnixSeconds(1000 + 47 * 3600)), "47h");
  EXPECT_EQ(Age(time, absl::FromUnixSeconds(1000 + 72 * 3600)), "3d");
}

// A hostile worker wrote what a person reads.
TEST(HostileTextTest, NothingOfItReachesTheTerminalOrMakesALineOfItsOwn) {
  const std::string evil =
      "m\x1b[31mred\nSucceeded  TRUE  Completed\xc2\x9b"
      "2J\xe2\x80\xae";
  const std::string safe = "m\\x1b[31mred\\nSucceeded  TRUE  Completed\\u009b2J\\u202e";
  v1alpha1::Job job;
  job.set_name("jobs/j");
  job.set_state(v1alpha1::Job::FAILED);
  job.mutable_spec()->mutable_queue()->set_project(evil);
  for (const char* type : {"Prepared", "Succeeded"}) {
    v1alpha1::Condition* condition = job.add_conditions();
    condition->set_type(type);
    condition->set_status(v1alpha1::Condition::FALSE);
    condition->set_reason(evil);
    condition->set_message(evil);
  }
  v1alpha1::FirstFailure& failure = *job.mutable_first_failure();
  failure.set_phase(evil);
  failure.set_message(evil);
  failure.set_last_operation(evil);
  job.mutable_profile()->set_parity_message(evil);
  auto* entry = job.mutable_progress()->mutable_ledger()->add_entries();
  entry->set_part(v1alpha1::Ledger::EXPOSED);
  entry->set_group(evil);
  entry->set_phase(evil);
  entry->set_seconds(1);
  const absl::Time now = absl::FromUnixSeconds(1000);
  const std::string shown =
      absl::StrCat(DescribeJob(job, now, false), JobTable({job}, now), Summary(job, false));
  for (const absl::string_view line : absl::StrSplit(shown, '\n')) {
    EXPECT_TRUE(IsPrintable(line)) << Escaped(line);
    EXPECT_FALSE(absl::StartsWith(line, "Succeeded  TRUE")) << line;
  }
  EXPECT_THAT(shown, HasSubstr(safe));
}

TEST(NamesTest, NearestNameNeedsToBeNear) {
  const std::vector<std::string> names = {"tp_size", "pp_size", "steps"};
  EXPECT_EQ(NearestName("tp_sise", names), "tp_size");
  EXPECT_EQ(NearestName("Steps", names), "steps");
  EXPECT_EQ(NearestName("setps", names), "steps");
  EXPECT_EQ(NearestName("zebra", names), "");
  EXPECT_EQ(NearestName("", names), "");
}

TEST(JobTableTest, OneLineAJob) {
  Job pending;
  pending.set_name("jobs/waits");
  pending.set_state(Job::PENDING);
  EXPECT_EQ(JobTable({SomeJob(), pending}, absl::FromUnixSeconds(1100)),
            "NAME   STATE       STEP    LOSS  TOKENS/S  OVERLAP  SCHEDULE     AGE\n"
            "gpt    SUCCEEDED  20/20  2.2500     12.3k   90.0 %  domino_row  100s\n"
            "waits  PENDING        -       -         -        -                 -\n");
}

TEST(JobTableTest, OwnersAreShownWhereThereAreUsers) {
  Job alices = SomeJob(), old = SomeJob();
  alices.set_owner("alice");
  old.set_name("jobs/old");
  EXPECT_THAT(JobTable({alices, old}, absl::FromUnixSeconds(1100)),
              StartsWith("NAME  STATE      OWNER   STEP    LOSS  TOKENS/S  OVERLAP  SCHEDULE     "
                         "AGE\n"
                         "gpt   SUCCEEDED  alice  20/20  2.2500     12.3k   90.0 %  domino_row  "
                         "100s\n"
                         "old   SUCCEEDED  -      20/20 "));
  EXPECT_THAT(DescribeJob(alices, absl::FromUnixSeconds(1100), false),
              HasSubstr("\nOwner:       alice\n"));
  // Without TLS there is one user.
  alices.set_owner("local");
  EXPECT_THAT(JobTable({alices, old}, absl::FromUnixSeconds(1100)), Not(HasSubstr("OWNER")));
  EXPECT_THAT(DescribeJob(alices, absl::FromUnixSeconds(1100), false), Not(HasSubstr("Owner")));
}

TEST(DescribeTest, ARetiredJobSaysThatLittleIsKept) {
  Job job = SomeJob();
  job.mutable_retire_time()->set_seconds(2000);
  const std::string text = DescribeJob(job, absl::FromUnixSeconds(3000), false);
  EXPECT_THAT(text, HasSubstr("Retired:"));
  EXPECT_THAT(text, HasSubstr(": its spec, steps, ledgers and events are not kept\n"));
  for (const char* field : {"Model:", "Data:", "Schedule:", "Link:"})
    EXPECT_THAT(text, Not(HasSubstr(field)));
}

TEST(SummaryTest, SaysWhatHappenedWithItsLedger) {
  Job job = SomeJob();
  job.mutable_submit_to_first_step()->set_seconds(2);
  const std::string text = Summary(job, false);
  EXPECT_THAT(text,
              StartsWith("job gpt SUCCEEDED after 20 of 20 steps in 90.0s (first step after 2.0s)\n"
                         "loss 5.5000 -> 2.2500, 123.4k tokens, 12.3k tokens/s\n\n"
                         "seconds          forward"));
  EXPECT_THAT(text, Not(HasSubstr("emulated link")));
  EXPECT_THAT(Summary(job, true), HasSubstr("\x1b[32mSUCCEEDED\x1b[0m"));
}

v1alpha1::Evaluation SomeEvaluation() {
  v1alpha1::Evaluation evaluation;
  evaluation.set_loss(2.5);
  evaluation.set_perplexity(12.18249);
  evaluation.set_best_loss(2.25);
  return evaluation;
}

TEST(SummaryTest, SaysWhyAJobStoppedEarlyAndItsHeldOutLoss) {
  Job job = SomeJob();
  *job.mutable_progress()->mutable_last_evaluation() = SomeEvaluation();
  v1alpha1::Condition& succeeded = *job.add_conditions();
  succeeded.set_type("Succeeded");
  succeeded.set_reason("Completed");
  succeeded.set_message("20 steps");
  EXPECT_THAT(Summary(job, false), Not(HasSubstr("stopped early")));
  EXPECT_THAT(Summary(job, false), HasSubstr("\nheld-out loss 2.5000, perplexity 12.18\n"));
  job.mutable_conditions(0)->set_reason("EarlyStopped");
  job.mutable_conditions(0)->set_message("step 20 of 90");
  EXPECT_THAT(Summary(job, false), HasSubstr("\nstopped early: step 20 of 90\nloss "));
}

TEST(DescribeTest, NamesTheBestCheckpointWhereTheJobKeepsIt) {
  Job job = SomeJob();
  const auto text = [&] { return DescribeJob(job, absl::FromUnixSeconds(1100), false); };
  EXPECT_THAT(text(), Not(HasSubstr("Best:")));
  job.mutable_progress()->set_best_checkpoint("step-00000040");
  EXPECT_THAT(text(), testing::ContainsRegex("Best: +checkpoint step-00000040\n"));
}

TEST(DescribeTest, HasTheLastEvaluationWhereThereIsOne) {
  Job job = SomeJob();
  EXPECT_THAT(DescribeJob(job, absl::FromUnixSeconds(1100), false), Not(HasSubstr("Held out")));
  *job.mutable_progress()->mutable_last_evaluation() = SomeEvaluation();
  job.mutable_progress()->set_last_evaluation_step(15);
  EXPECT_THAT(
      DescribeJob(job, absl::FromUnixSeconds(1100), false),
      HasSubstr("\nHeld out:    loss 2.5000, perplexity 12.18, best loss 2.2500, after step "
                "15\n"));
}

TEST(DescribeTest, ShowsConditionsPlacementLedgerAndProfile) {
  Job job = SomeJob();
  job.mutable_spec()->mutable_emulated_link()->set_gigabits_per_second(1);
  job.mutable_spec()->mutable_emulated_link()->set_latency_microseconds(50);
  v1alpha1::Condition* condition = job.add_conditions();
  condition->set_type("Scheduled");
  condition->set_status(v1alpha1::Condition::FALSE);
  condition->set_reason("NotEnoughSlots");
  condition->set_message("found 1 free slot, expected 2");
  condition->mutable_last_transition_time()->set_seconds(1050);
  job.add_placement()->set_worker("workers/worker-1");
  *job.mutable_progress()->add_rank_ledgers() = SomeLedger();
  job.mutable_profile()->set_t_comp(0.3);
  job.mutable_profile()->set_t_comm(0.2);
  job.mutable_profile()->set_t_serial(0.55);
  job.mutable_profile()->set_t_ideal_step(0.4);
  job.mutable_profile()->set_verified_parity(true);
  job.mutable_profile()->set_parity_message("3 steps, equal bits");
  job.set_merged_wgrads(4);
  for (int micro_batches : {3, 1}) job.add_warm_ups(micro_batches);
  job.mutable_spec()->set_device(v1alpha1::DEVICE_CUDA);
  const std::string text = DescribeJob(job, absl::FromUnixSeconds(1100), false);
  EXPECT_THAT(text, HasSubstr("Schedule:    domino_row, 2 slices, tp 2\n"
                              "Merged:      weight gradients of 4 micro-batches, as memory "
                              "allowed\n"
                              "Warm-ups:    3 1, by measured times and as memory allowed\n"));
  EXPECT_THAT(text, HasSubstr("Device:      cuda\n"));
  EXPECT_THAT(text, HasSubstr("Link:        emulated link, 1 Gbit/s, 50 us latency\n"));
  EXPECT_THAT(
      text, HasSubstr("CONDITION  STATUS  REASON          SINCE  MESSAGE\n"
                      "Scheduled  FALSE   NotEnoughSlots    50s  found 1 free slot, expected 2\n"));
  EXPECT_THAT(text, HasSubstr("RANK  WORKER    SLOT  OVERLAP\n"
                              "   0  worker-1     0   90.0 %\n"));
  EXPECT_THAT(text, HasSubstr("hidden (emulated link)"));
  EXPECT_THAT(text, HasSubstr("t_ideal     0.4000  bound for every schedule\n"
                              "t_overlap   0.5000  mean step of this run\n"
                              "step is 1.25 x ideal\n"
                              "parity verified: 3 steps, equal bits\n"));
  job.mutable_profile()->set_verified_parity(false);
  EXPECT_THAT(DescribeJob(job, absl::FromUnixSeconds(1100), false),
              HasSubstr("PARITY NOT VERIFIED"));
  EXPECT_EQ(WhyText(job), "NotEnoughSlots: found 1 free slot, expected 2");
}

TEST(DescribeTest, NothingIsInventedForAJobThatNeverRan) {
  Job job;
  job.set_name("jobs/waits");
  job.mutable_create_time()->set_seconds(1000);
  *job.mutable_spec() = SomeJob().spec();
  job.mutable_progress()->set_total_steps(20);
  for (const Job::State state : {Job::PENDING, Job::PREPARING, Job::CANCELLED}) {
    job.set_state(state);
    const std::string text =
        absl::StrCat(DescribeJob(job, absl::FromUnixSeconds(1100), false), Summary(job, false));
    EXPECT_THAT(text, HasSubstr("\nSteps:       0/20\n"));
    for (const char* unknown : {"nan", "inf", "0.0", "Loss", "loss", "okens", "PROFILE", "Ledger",
                                "overlap", "Started", "Ended"}) {
      EXPECT_THAT(text, Not(HasSubstr(unknown)));
    }
  }
}

// The number of steps is stored; what they measured is known again with the next one.
TEST(DescribeTest, NothingIsInventedBetweenARestartOfTheCoordinatorAndTheNextStep) {
  Job job;
  job.set_name("jobs/gpt");
  job.set_state(Job::RUNNING);
  job.mutable_progress()->set_steps(12);
  job.mutable_progress()->set_total_steps(20);
  const absl::Time now = absl::FromUnixSeconds(1100);
  const std::string text =
      absl::StrCat(DescribeJob(job, now, false), JobTable({job}, now), Summary(job, false));
  EXPECT_THAT(text, HasSubstr("\nSteps:       12/20\n"));
  EXPECT_THAT(text, HasSubstr("\ngpt   RUNNING  12/20     -         -        - "));
  EXPECT_THAT(text, Not(HasSubstr("0.0")));
}

TEST(DescribeTest, ALossThatIsNoNumberHasNoPerplexity) {
  Job job = SomeJob();
  v1alpha1::Evaluation& last = *job.mutable_progress()->mutable_last_evaluation();
  last = SomeEvaluation();
  last.set_loss(std::nan(""));
  last.set_perplexity(std::nan(""));
  const std::string text =
      absl::StrCat(DescribeJob(job, absl::UnixEpoch(), false), Summary(job, false));
  EXPECT_THAT(text, HasSubstr("loss -, perplexity -, best loss 2.2500"));
  EXPECT_THAT(text, HasSubstr("\nheld-out loss -, perplexity -\n"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

// Something else used the machine while the profile was measured.
TEST(DescribeTest, ADisturbedProfileIsNoBound) {
  Job job = SomeJob();
  job.mutable_profile()->set_t_ideal_step(0.4);
  job.mutable_profile()->set_spread(0.42);
  job.mutable_profile()->set_preempted_share(0.06);
  const std::string text = DescribeJob(job, absl::UnixEpoch(), false);
  EXPECT_THAT(text, HasSubstr("\nt_ideal     0.4000  no bound\n"));
  EXPECT_THAT(text, HasSubstr("\ndisturbed profile: repetitions 42.0 % apart, 6.0 % without a CPU, "
                              "no bound\n"));
  EXPECT_THAT(text, Not(HasSubstr("bound for every schedule")));
  EXPECT_THAT(text, Not(HasSubstr("x ideal")));
}

TEST(DescribeTest, EpochsOfTheDataAreCountedInSteps) {
  Job job = SomeJob();
  EXPECT_THAT(DescribeJob(job, absl::UnixEpoch(), false), Not(HasSubstr("Epochs")));
  job.mutable_progress()->set_steps(50);
  job.mutable_spec()->set_global_batch_size(8);
  job.mutable_spec()->mutable_model()->set_sequence_length(128);
  job.set_epoch_sequences(161);
  EXPECT_THAT(DescribeJob(job, absl::UnixEpoch(), false),
              ::testing::ContainsRegex("Epochs: +2.48 done, one has 21 steps\n"));
}

// They follow from the spec, so they are known before any rank has prepared.
TEST(DescribeTest, TokensOfAStepAreToldAlways) {
  Job job;
  job.mutable_progress()->set_total_steps(20);
  job.mutable_spec()->set_global_batch_size(8);
  job.mutable_spec()->mutable_model()->set_sequence_length(128);
  EXPECT_THAT(DescribeJob(job, absl::UnixEpoch(), false),
              ::testing::ContainsRegex("Steps: +0/20 of 1.0k tokens each\n"));
}

TEST(DescribeTest, TheNewestSamplesAreShownOnALineEach) {
  Job job = SomeJob();
  v1alpha1::Samples* samples = job.add_samples();
  samples->set_step(10);
  samples->add_samples()->set_text("ancient");
  samples = job.add_samples();
  samples->set_step(20);
  samples->add_samples()->set_prompt("Once");
  samples->mutable_samples(0)->set_text(" upon\n a \x1b[31mtime");
  samples->add_samples()->set_prompt("b");
  const std::string text = DescribeJob(job, absl::UnixEpoch(), false);
  EXPECT_THAT(text, HasSubstr("\nsample of step 20: [Once]  upon\\n a \\x1b[31mtime\n"
                              "sample of step 20: [b] \n"));
  EXPECT_THAT(text, Not(HasSubstr("ancient")));
  samples->clear_samples();
  samples->set_error("no tokenizer");
  EXPECT_THAT(SampleLines(*samples),
              ::testing::ElementsAre("sample of step 20: none, no tokenizer"));
}

}  // namespace
}  // namespace stretto::cli

#include "coordinator/cli/text/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "coordinator/cli/screen/live_line.h"
#include "coordinator/cli/screen/loss_curve.h"
#include "coordinator/cli/screen/progress.h"
#include "coordinator/cli/text/names.h"
#include "coordinator/cli/text/print_job.h"
#include "coordinator/cli/text/spec_text.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using v1alpha1::Job;
using v1alpha1::Ledger;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

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

TEST(PrintableTest, RemovesTerminalControl) {
  EXPECT_EQ(Printable("a\x1b[2Jb\n\tc"), "a?[2Jb\n\tc");
  EXPECT_EQ(Printable("a\xc2\x9b"
                      "2Jé"),
            "a??2Jé");
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

TEST(SummaryTest, NamesTheFirstFailure) {
  Job job = SomeJob();
  job.set_state(Job::FAILED);
  v1alpha1::FirstFailure& failure = *job.mutable_first_failure();
  failure.set_rank(1);
  failure.set_worker("workers/worker-2");
  failure.set_signal(9);
  failure.set_step(12);
  failure.set_phase("backward");
  failure.set_last_operation("18 comm.tp all_reduce L3.fc2 fwd mb0 s0");
  EXPECT_EQ(FailureText(failure),
            "rank 1 on worker-2 was killed by signal 9 (Killed) at step 12, backward\n"
            "  last operation: 18 comm.tp all_reduce L3.fc2 fwd mb0 s0");
  EXPECT_THAT(Summary(job, false), HasSubstr("rank 1 on worker-2 was killed"));
  failure.set_message("pid 7 crashed with signal 9 (Killed)");
  EXPECT_THAT(FailureText(failure),
              StartsWith("rank 1 on worker-2 at step 12, backward: pid 7 crashed with signal 9"));
  failure.set_signal(0);
  failure.set_exit_code(3);
  failure.set_message("x.idx: found 5 bytes, expected 34");
  EXPECT_THAT(FailureText(failure),
              HasSubstr("rank 1 on worker-2 exited with status 3 at step 12, backward: "
                        "x.idx: found 5 bytes, expected 34"));
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
  job.mutable_spec()->set_device(v1alpha1::DEVICE_CUDA);
  const std::string text = DescribeJob(job, absl::FromUnixSeconds(1100), false);
  EXPECT_THAT(text, HasSubstr("Schedule:    domino_row, 2 slices, tp 2\n"
                              "Merged:      weight gradients of 4 micro-batches, as memory "
                              "allowed\n"));
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

TEST(SpecTextTest, DataSaysItsPartsAndWhatIsHeldOut) {
  v1alpha1::JobSpec spec;
  spec.mutable_data()->set_prefix("books");
  EXPECT_EQ(DataText(spec), "books");
  spec.mutable_data()->set_held_out(0.015);
  EXPECT_EQ(DataText(spec), "books, 1.5 % held out");
  spec.clear_data();
  v1alpha1::BlendPart* part = spec.mutable_data()->add_blend();
  part->set_prefix("books");
  part->set_weight(2);
  part = spec.mutable_data()->add_blend();
  part->set_prefix("llmc:web/*.bin");
  part->set_weight(1);
  EXPECT_EQ(DataText(spec), "blend of books (66.7 %), llmc:web/*.bin (33.3 %)");
}

TEST(SpecTextTest, ModelSaysWhatIsUnusualOnly) {
  v1alpha1::JobSpec spec;
  v1alpha1::ModelSpec& model = *spec.mutable_model();
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  model.set_kv_heads(4);
  model.set_sequence_length(128);
  model.set_family(v1alpha1::FAMILY_GPT);
  EXPECT_EQ(ModelText(spec), "gpt, 2 layers, hidden 64, 4 heads, sequence 128");
  model.set_preset("llama-tiny");
  model.set_family(v1alpha1::FAMILY_LLAMA);
  model.set_kv_heads(2);
  model.set_dropout(0.1);
  EXPECT_EQ(ModelText(spec),
            "llama-tiny: llama, 2 layers, hidden 64, 4 heads on 2 of keys and "
            "values, sequence 128, dropout 0.1");
  model.set_dropout(0);
  model.set_norm_epsilon(1e-5);
  model.set_tied_head(false);
  const std::string usual =
      "llama-tiny: llama, 2 layers, hidden 64, 4 heads on 2 of keys and values, sequence 128";
  EXPECT_EQ(ModelText(spec), usual);
  model.set_norm_epsilon(1e-6);
  model.set_tied_head(true);
  model.mutable_rotary_scaling()->set_kind(v1alpha1::RotaryScaling::LLAMA3);
  model.mutable_rotary_scaling()->set_factor(8);
  EXPECT_EQ(ModelText(spec), usual +
                                 ", norm epsilon 1e-06, tied head, positions stretched by 8 "
                                 "(llama3)");
  model.clear_rotary_scaling();
  model.clear_preset();
  model.set_family(v1alpha1::FAMILY_GPT);
  model.set_kv_heads(4);
  model.set_norm_epsilon(1e-5);
  EXPECT_EQ(ModelText(spec), "gpt, 2 layers, hidden 64, 4 heads, sequence 128");
  model.set_tied_head(false);
  EXPECT_EQ(ModelText(spec), "gpt, 2 layers, hidden 64, 4 heads, sequence 128, a head of its own");
}

TEST(SpecTextTest, ScheduleNamesEveryParameter) {
  v1alpha1::JobSpec spec;
  spec.mutable_schedule()->set_name("domino_hybrid");
  spec.mutable_parallelism()->set_tp_size(2);
  spec.mutable_parallelism()->set_wire(v1alpha1::PRECISION_F32);
  spec.set_precision(v1alpha1::PRECISION_F32);
  v1alpha1::ScheduleParameters& parameters = *spec.mutable_schedule()->mutable_parameters();
  parameters.set_recompute(v1alpha1::RECOMPUTE_NONE);
  EXPECT_EQ(OptionsText(spec), "");
  EXPECT_EQ(ScheduleText(spec), "domino_hybrid, tp 2");
  parameters.add_slice_sizes(3);
  parameters.add_slice_sizes(1);
  parameters.set_splits(4);
  parameters.set_sequence_parallel(true);
  parameters.set_recompute(v1alpha1::RECOMPUTE_SELECTIVE);
  parameters.set_defer_wgrads(2);
  parameters.set_merge_wgrads(1);
  spec.mutable_parallelism()->set_wire(v1alpha1::PRECISION_BF16);
  EXPECT_EQ(ScheduleText(spec),
            "domino_hybrid, slices of 3 + 1, 4 splits, tp 2, sequence parallel, recompute "
            "selective, wgrads deferred by 2, wgrads merged, wire bf16");
  parameters.set_merge_wgrads(4);
  EXPECT_THAT(OptionsText(spec), HasSubstr(", wgrads of 4 micro-batches merged, "));
  parameters.set_merge_wgrads(0);
  parameters.set_auto_merge_wgrads(true);
  EXPECT_THAT(OptionsText(spec), HasSubstr(", wgrads merged as memory allows, "));
  parameters.set_recompute(static_cast<v1alpha1::Recompute>(9));  // of a newer coordinator
  EXPECT_THAT(OptionsText(spec), HasSubstr("recompute 9,"));
}

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
  ProgressTracker tracker;
  tracker.Add(SomeJob());
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
  *step.mutable_evaluation() = SomeEvaluation();
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

TEST(LossCurveTest, ASinglePointAndAFlatCurveAreDrawn) {
  const auto one = DrawCurve({{5, 2}}, "step", {.width = 24, .height = 3, .braille = false});
  EXPECT_THAT(one,
              ElementsAre("2 |", "  |          *", "2 |", "  +---------------------", testing::_));
}

}  // namespace
}  // namespace stretto::cli

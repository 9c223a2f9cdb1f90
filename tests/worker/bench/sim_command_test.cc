// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/sim_command.h"

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"
#include "proto/spec/presets.h"
#include "proto/spec/schedules.h"
#include "tests/golden_messages.h"
#include "tests/worker/bench/testing/sim_run.h"
#include "worker/bench/sim_plans.h"
#include "worker/engine/cost/profile.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

nlohmann::json Figures(const std::string& arguments) {
  const SimRun run = Sim(absl::StrCat(arguments, " --json"));
  EXPECT_EQ(run.code, 0) << arguments << ": " << run.err;
  return run.code == 0 ? nlohmann::json::parse(run.out) : nlohmann::json();
}

std::string FileWith(const std::string& text) {
  std::string path = ::testing::TempDir() + "/weave.plan";
  EXPECT_EQ(WriteFileAtomic(path, text), absl::OkStatus());
  return path;
}

TEST(SimCommandTest, DrawsALayerAndSumsTheStep) {
  const SimRun run = Sim("--schedule domino_row");
  EXPECT_EQ(run.code, 0) << run.err;
  for (const char* part : {"gpt-10m, f32\ngpt: 6 layers", "domino_row, tp 2, ",
                           "slices 2, splits 1", "layer 3 forward:", "layer 3 backward:",
                           "\ncompute ", "\ncomm.tp ", "compute_hiding tp forward", "speed-up ",
                           "exposed share", "hidden ceiling, no contention"}) {
    EXPECT_THAT(run.out, HasSubstr(part));
  }
}

TEST(SimCommandTest, ReferenceTakesOtherSharesOfCommunication) {
  const SimRun published = Sim("--reference");
  EXPECT_EQ(published.code, 0) << published.err;
  EXPECT_THAT(published.out,
              testing::StartsWith("all-reduces take 16 % of the synchronous step\norder  "));
  EXPECT_EQ(Sim("--reference --shares 0.16,0.43").out, published.out);

  const SimRun other = Sim("--reference --shares 0.43,0.6");
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("ours (exposed)  reference (exposed)\n"));
  EXPECT_THAT(other.out, HasSubstr("megatron_sync     1.000 (100.0 %)         1.00 (100 %)\n"));
  EXPECT_THAT(other.out, HasSubstr("\n\nall-reduces take 60 % of the synchronous step\n"));
  EXPECT_THAT(other.out, HasSubstr("megatron_sync     1.000 (100.0 %)\n"));
  for (const char* wrong :
       {"--shares 0.5", "--reference --shares 1", "--reference --shares half"}) {
    const SimRun run = Sim(wrong);
    EXPECT_EQ(run.code, 2) << wrong;
    EXPECT_THAT(run.err, HasSubstr("--shares")) << wrong;
  }
}

TEST(SimCommandTest, TheSameFlagsGiveTheSameText) {
  const std::string flags = "--schedule domino_hybrid --contention 0.2 --grid step --latency-us 5";
  EXPECT_EQ(Sim(flags).out, Sim(flags).out);
}

TEST(SimCommandTest, EveryScheduleRunsWithItsDefaults) {
  for (const std::string& name : ScheduleNames()) {
    const nlohmann::json figures =
        Figures(absl::StrCat("--model gpt-tiny --micro-batches 2 --schedule ", name));
    EXPECT_EQ(figures["schedule"], name);
    EXPECT_GT(figures["step_seconds"], 0) << name;
  }
}

TEST(SimCommandTest, ASearchedPlanIsComparedWithTheDefaultOne) {
  const std::string flags =
      "--model gpt-10m --schedule helix --micro-batches 4 --sequence-parallel --gbps 1";
  const nlohmann::json given = Figures(flags), found = Figures(flags + " --plan found");
  EXPECT_EQ(given["cell"], found["cell"]);
  EXPECT_EQ(given["played_plan"], "default");
  EXPECT_EQ(found["played_plan"], "found");
  EXPECT_LT(found["cell"]["found_seconds"], given["cell"]["default_seconds"]);
  EXPECT_LT(found["step_seconds"], given["step_seconds"]);
  EXPECT_GE(found["cell"]["found_seconds"], found["cell"]["lower_bound_seconds"]);
  EXPECT_THAT(std::string(found["cell"]["found_plan"]), HasSubstr("weave f0|b0 pace=1\n"));
  EXPECT_THAT(Sim(flags).out, HasSubstr("cell, default plan"));
  EXPECT_THAT(Sim(flags).out, MatchesRegex("(.|\n)*cell, found plan .*/ bound 1\\.0[^\n]*\n"
                                           "cell, lower bound (.|\n)*"));
  EXPECT_FALSE(Figures("--schedule domino_row").contains("cell"));
}

// What is printed, read again, gives the same step.
TEST(SimCommandTest, APlanIsPrintedAndReadFromAFile) {
  const std::string flags =
      "--model gpt-10m --schedule helix --micro-batches 4 --sequence-parallel --gbps 1";
  const nlohmann::json found = Figures(flags + " --plan found");
  const SimRun printed = Sim(flags + " --plan found --print-plan");
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_EQ(printed.out, found["cell"]["found_plan"]);
  const double seconds = found["cell"]["found_seconds"],
               bound = found["cell"]["lower_bound_seconds"];
  EXPECT_EQ(printed.err,
            absl::StrFormat("cell f0|b0: %.3f ms, %.3f of the lower bound of all plans\n",
                            seconds * 1e3, seconds / bound));
  const std::string file = FileWith(printed.out);
  const nlohmann::json read = Figures(flags + " --plan " + file);
  EXPECT_EQ(read["step_seconds"], found["step_seconds"]);
  EXPECT_EQ(read["cell"]["given_seconds"], found["cell"]["found_seconds"]);
  EXPECT_EQ(read["played_plan"], "given");
  EXPECT_FALSE(read["cell"].contains("default_seconds"));
  EXPECT_EQ(Sim(flags + " --print-plan --plan " + file).out, printed.out);
  EXPECT_NE(Sim(flags + " --print-plan").out, printed.out);
}

// As the plans were compared: the step is longer, and the bound is not.
TEST(SimCommandTest, TimesOfPlansHaveTheContentionOfTheStep) {
  const std::string flags = "--model gpt-10m --schedule helix --micro-batches 4 --gbps 1";
  const nlohmann::json alone = Figures(flags)["cell"];
  const nlohmann::json shared = Figures(flags + " --contention 0.3")["cell"];
  for (const char* name : {"default_seconds", "found_seconds"})
    EXPECT_GT(shared[name], 1.05 * alone[name].get<double>()) << name;
  EXPECT_EQ(shared["lower_bound_seconds"], alone["lower_bound_seconds"]);
}

// For cells of few layers; more of them take the search too long.
TEST(SimCommandTest, APlanWithBarriersIsComparedWithTheOthers) {
  const std::string flags = "--model gpt-10m --schedule helix --micro-batches 4 --gbps 1 --layers ";
  const nlohmann::json alone = Figures(flags + "2")["cell"];
  const nlohmann::json shared = Figures(flags + "2 --contention 0.3")["cell"];
  EXPECT_GT(alone["blocks_seconds"], 1.001 * alone["found_seconds"].get<double>());
  EXPECT_GT(shared["blocks_seconds"], 1.02 * alone["blocks_seconds"].get<double>());
  EXPECT_FALSE(Figures(flags + "5")["cell"].contains("blocks_seconds"));
  EXPECT_THAT(Sim(flags + "2").out, HasSubstr(", with barriers\ncell, lower bound"));
}

TEST(SimCommandTest, AFaultyPlanIsRefused) {
  const auto error = [](const std::string& flags) {
    const SimRun run = Sim(flags);
    EXPECT_EQ(run.code, 2) << flags;
    return run.err;
  };
  const std::string helix = "--model gpt-tiny --schedule helix --micro-batches 4 ";
  EXPECT_THAT(
      error("--schedule domino_row --plan found"),
      HasSubstr("--plan: found 'found' with --schedule domino_row, expected a schedule that "
                "weaves"));
  EXPECT_THAT(error("--schedule domino_row --print-plan"),
              HasSubstr("--print-plan: found it with --schedule domino_row, expected a schedule "
                        "that weaves"));
  EXPECT_THAT(error(helix + "--plan nowhere.plan"), HasSubstr("--plan: "));
  const std::string file = FileWith("weave f0|b0 pace=1\n  f ln1 L0\n  f fc3 L1\n");
  EXPECT_THAT(error(helix + "--plan " + file),
              HasSubstr("--plan: found 'fc3' in line 3 of the plan, expected one of ln1, "));
  EXPECT_THAT(error("--schedule domino_row --plan " + file),
              HasSubstr("expected nothing, because domino_row weaves no passes"));
}

TEST(SimCommandTest, EveryPresetRuns) {
  for (const ModelPreset& preset : kModelPresets) {
    const nlohmann::json figures =
        Figures(absl::StrCat("--schedule domino_row --model ", preset.name));
    EXPECT_EQ(figures["layers"], preset.layers) << preset.name;
    EXPECT_EQ(figures["kv_heads"], preset.kv_heads) << preset.name;
    EXPECT_GT(figures["speed_up"], 1) << preset.name;
  }
}

TEST(SimCommandTest, TheSynchronousScheduleIsItsOwnBaseline) {
  const nlohmann::json figures = Figures("--micro-batches 2");
  EXPECT_EQ(figures["speed_up"], 1);
  EXPECT_EQ(figures["forward"]["exposed_share"], 1);
  EXPECT_EQ(figures["backward"]["hidden_ceiling"], 0);
  const double serial = figures["t_comp"].get<double>() + figures["t_comm"].get<double>();
  EXPECT_NEAR(figures["step_seconds"], serial, 1e-6 * serial);
}

TEST(SimCommandTest, ClosedTailsAreFasterOnlyWhereAScheduleClosesThem) {
  const auto figures = Figures("--schedule domino_row --micro-batches 4");
  EXPECT_GT(figures["open_tails_seconds"], figures["step_seconds"]);
  const auto published = Figures("--schedule nanotron --micro-batches 4");
  EXPECT_EQ(published["open_tails_seconds"], published["step_seconds"]);
}

// A micro-batch of one sequence cannot be sliced, so its forward is exposed unless it is woven.
TEST(SimCommandTest, WovenMicroBatchesOfOneSequenceHideForward) {
  const std::string work = "--micro-batch 1 --micro-batches 8 --gbps 1 --schedule ";
  const auto exposed = [](const nlohmann::json& figures, const char* pass) {
    return figures[pass]["exposed_share"].get<double>();
  };
  const auto async = Figures(work + "megatron_async"), helix = Figures(work + "helix");
  EXPECT_EQ(exposed(async, "forward"), 1);
  EXPECT_LT(exposed(helix, "forward"), 0.2);  // an eighth has no partner
  EXPECT_LT(exposed(helix, "backward"), 0.2);
  EXPECT_GT(helix["speed_up"], 1.2 * async["speed_up"].get<double>());
  EXPECT_GE(helix["step_seconds"], helix["t_ideal_step"]);
}

TEST(SimCommandTest, NoStepBeatsItsBound) {
  for (const char* link : {"0.1", "1", "10"}) {
    for (const char* contention : {"0", "0.3"}) {
      const nlohmann::json figures = Figures(
          absl::StrCat("--schedule domino_row --gbps ", link, " --contention ", contention));
      EXPECT_GE(figures["step_seconds"], 0.999 * figures["t_ideal_step"].get<double>()) << link;
    }
  }
}

TEST(SimCommandTest, ContentionSlowsTheStepAndLeavesTheCeiling) {
  const nlohmann::json free = Figures("--schedule domino_row");
  const nlohmann::json shared = Figures("--schedule domino_row --contention 0.3");
  EXPECT_GT(shared["step_seconds"], 1.02 * free["step_seconds"].get<double>());
  for (const char* pass : {"forward", "backward"}) {
    EXPECT_EQ(shared[pass]["hidden_ceiling"], free[pass]["hidden_ceiling"]);
    EXPECT_DOUBLE_EQ(free[pass]["hidden_ceiling"], 1 - free[pass]["exposed_share"].get<double>());
  }
}

TEST(SimCommandTest, TheLedgerSumsToTheStep) {
  const nlohmann::json figures =
      Figures("--schedule domino_row --recompute full --micro-batches 3");
  double sum = 0;
  for (const nlohmann::json& entry : figures["ledger"]) sum += entry["seconds"].get<double>();
  EXPECT_NEAR(sum, figures["step_seconds"], 1e-9);
}

// Sums over replicas that a synchronous step waits for are hidden by an asynchronous one.
TEST(SimCommandTest, ReplicasAddUpTheirGradients) {
  const auto exposed = [](const nlohmann::json& figures) {
    double seconds = 0;
    for (const nlohmann::json& entry : figures["ledger"]) {
      if (entry["group"] == "dp" && entry["part"] == "exposed") {
        seconds += entry["seconds"].get<double>();
      }
    }
    return seconds;
  };
  const auto sync = Figures("--tp 1 --dp 2 --micro-batches 2");
  const auto async = Figures("--tp 1 --dp 2 --micro-batches 2 --schedule megatron_async");
  EXPECT_EQ(sync["dp_size"], 2);
  EXPECT_GT(exposed(sync), 0);
  EXPECT_LT(exposed(async), exposed(sync));
  EXPECT_EQ(exposed(Figures("--tp 1 --micro-batches 2")), 0);
  EXPECT_THAT(Sim("--tp 2 --dp 4").out, HasSubstr("tp 2, dp 4, 1 x "));
  EXPECT_THAT(Sim("--dp 0").err, HasSubstr("--dp"));
}

TEST(SimCommandTest, ShapesReplaceThePresets) {
  const nlohmann::json figures = Figures("--model gpt-tiny --layers 3 --family llama --kv-heads 2");
  EXPECT_EQ(figures["model"], "gpt-tiny, changed");
  EXPECT_EQ(figures["family"], "llama");
  EXPECT_EQ(figures["layers"], 3);
  EXPECT_EQ(figures["kv_heads"], 2);
  EXPECT_EQ(figures["hidden"], 64);
}

TEST(SimCommandTest, HalfTheBytesOnTheWireTakeHalfTheTime) {
  const double wide = Figures("--wire f32")["t_comm"], narrow = Figures("--wire bf16")["t_comm"];
  EXPECT_NEAR(narrow / wide, 0.5, 0.01);  // the loss travels in f32
}

struct BadArguments {
  const char* arguments;
  std::vector<std::string> facts;  // of the error
};

TEST(SimCommandTest, MergedWeightGradientsAreFewer) {
  const std::string flags = "--schedule domino_row --micro-batches 4 --merge-wgrads ";
  nlohmann::json before = Figures(flags + "0");
  for (const char* merged : {"1", "2", "4"}) {
    const nlohmann::json figures = Figures(flags + merged);
    EXPECT_EQ(figures["merge_wgrads"].dump(), merged);
    EXPECT_LT(figures["operations"], before["operations"]) << merged;
    before = figures;
  }
}

// A search keeps the order of weight gradients, and a plan need not.
TEST(SimCommandTest, APlanInAnyOrderIsPlayedAndComparedWithTheOneThatIsFound) {
  const std::string file = FileWith("weave f0|b0 pace=1\n  b w.fc1 L0\n  b w.fc1 L1\n");
  const std::string flags =
      "--model gpt-tiny --layers 2 --schedule helix --micro-batches 4 --micro-batch 2";
  const SimRun run = Sim(flags + " --plan " + file);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(", not searched, played\n"));
  const double found = Figures(flags + " --plan " + file)["cell"]["found_seconds"],
               usual = Figures(flags)["cell"]["found_seconds"];
  EXPECT_NEAR(found / usual, 1, 1e-3);
}

TEST(SimCommandTest, BadArgumentsAreOneLineWithFlagFoundAndExpected) {
  const std::vector<BadArguments> cases = {
      {"--tp 0", {"--tp", "0", "1 to 65536"}},
      {"--tp two", {"--tp", "two", "1 to 65536"}},
      {"--tp 5", {"--tp", "5", "heads 6"}},
      {"--gbps nan", {"--gbps", "nan", "from 1e-9 to 1e12"}},
      {"--contention 1", {"--contention", "1", "0 to 0.99"}},
      {"--recompute some", {"--recompute", "'some'", "none, selective, full"}},
      {"--heads 7", {"--heads", "7", "hidden 384"}},
      {"--merge-wgrads 3 --micro-batches 4", {"--merge-wgrads", "3", "4 micro-batches"}},
      {"--schedule domino_row --slices 9", {"--slices", "9", "--micro-batch 4"}},
      {"--layer 6", {"--layer", "6", "0 to 5"}},
      {"--micro-batches 20000", {"--micro-batch x --micro-batches", "80000", "1 to 65536"}},
      {"--micro-batches 10000", {"--micro-batches", "10000", "32768", "60000"}},
      {"--schedule megatron_sync --splits 2", {"--splits", "2", "megatron_sync", "recompute"}},
      {"--overlap", {"'--overlap'", "`stretto-bench sim --help`"}},
      {"--costs /no/such/file", {"--costs", "/no/such/file", "No such file or directory"}},
      {"--costs /dev/null", {"--costs", "/dev/null", "no line with costs"}},
      {"--schedule helix --micro-batches 4 --print-plan --json", {"--print-plan", "--json"}},
  };
  GoldenMessages golden("stretto-bench");
  for (const BadArguments& bad : cases) {
    const SimRun run = Sim(bad.arguments);
    EXPECT_EQ(run.code, 2) << bad.arguments;
    EXPECT_THAT(run.err, MatchesRegex("error: [^\n]+\n"));
    golden.Add(run.err, bad.facts);
    EXPECT_EQ(run.out, "") << bad.arguments;
  }
}

// As of a variable of the shell that is not set.
TEST(SimCommandTest, AnEmptyFileNameIsRefused) {
  const auto error = [](const char* flag) {
    std::ostringstream out, err;
    EXPECT_EQ(SimCommand({flag, ""}, out, err, kPlainWidth), 2);
    return err.str();
  };
  EXPECT_EQ(error("--costs"), "error: --costs: found nothing, expected the name of a file\n");
  EXPECT_EQ(error("--plan"),
            "error: --plan: found nothing, expected default, found or the name of a file\n");
}

// A calibration without operations: its link and its contention are those of the flags.
TEST(SimCommandTest, CalibratedCostsReplaceTheLinkAndTheContentionOfTheFlags) {
  const std::string file = ::testing::TempDir() + "/sim-costs.txt";
  CostProfile costs{.machine = "cpu, of nobody", .build = "1"};
  costs.latency_seconds = {1e-5, 0};
  costs.bytes_per_second = {2.5e8, 0};
  costs.cpu_share = 0.25;
  ASSERT_EQ(WriteFileAtomic(file, Print(costs)), absl::OkStatus());

  EXPECT_EQ(Figures("--schedule domino_row --costs " + file),
            Figures("--schedule domino_row --gbps 2 --latency-us 10 --contention 0.25"));
  costs.pairs[{ComputeClass::kProduct, CollectiveKind::kAllReduce}].contention.compute = 0.5;
  ASSERT_EQ(WriteFileAtomic(file, Print(costs)), absl::OkStatus());
  const nlohmann::json one = Figures(
                           "--schedule domino_row --gbps 2 --latency-us 10 --contention "
                           "0.25"),
                       pairs = Figures("--schedule domino_row --costs " + file);
  EXPECT_GT(pairs["step_seconds"], one["step_seconds"]);
  for (const char* pass : {"forward", "backward"})  // what could be hidden if nothing contended
    EXPECT_EQ(pairs[pass]["hidden_ceiling"], one[pass]["hidden_ceiling"]);

  costs.latency_seconds.spread = 0.5;
  ASSERT_EQ(WriteFileAtomic(file, Print(costs)), absl::OkStatus());
  const SimRun run = Sim("--costs " + file);
  EXPECT_EQ(run.code, 2);
  EXPECT_EQ(run.err, absl::StrCat("error: --costs ", file, ": costs line 4: found repeats that ",
                                  "spread by 50.0 %, expected at most 10 %: calibrate on an idle ",
                                  "machine\n"));
}

TEST(SimCommandTest, SaysHowManyOperationsTheCostsHave) {
  const std::string file = FileWith("fwd fc1 gemm 0.001\nfwd fc2 all_reduce 0.002\n");
  const nlohmann::json figures = Figures("--costs " + file);
  EXPECT_EQ(figures["known_computations"], 6);  // the model has six layers
  EXPECT_EQ(figures["known_collectives"], 6);
  EXPECT_GT(figures["computations"], 6);
  EXPECT_THAT(Sim("--costs " + file).out,
              HasSubstr(absl::StrCat("known times                   6 of ",
                                     figures["computations"].dump(), " computations, 6 of ",
                                     figures["collectives"].dump(), " collectives\n")));
  EXPECT_THAT(Sim("--layers 8 --pp 2 --pipeline 1f1b --micro-batches 4 --costs " + file).out,
              HasSubstr("\nknown times: 32 of "));
  EXPECT_THAT(Sim("").out, testing::Not(HasSubstr("known times")));
}

// Every model has the norm of all gradients, which is one number.
TEST(SimCommandTest, ATraceOfAnotherModelIsRefusedWhateverIsShared) {
  const std::string shared =
      "all_reduce f32[1] > f32[1] wire=0 ranks=2 0.001\nclip f32[1] f32[9] > f32[3] 0.001\n";
  EXPECT_EQ(Sim("--costs " + FileWith(shared)).code, 0);
  const SimRun run = Sim("--costs " + FileWith(shared + "gemm f32[1,3] f32[5,3] > f32[1,5] 1\n"));
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("found times, but of no matrix product of this model"));
}

TEST(SimCommandTest, CostsOfAnotherModelAreRefused) {
  const std::string file = FileWith("fwd fc9 gemm 0.001\n");
  for (const char* layout : {"", "--pp 2 --layers 8 --micro-batches 4 "}) {
    const SimRun run = Sim(absl::StrCat(layout, "--costs ", file));
    EXPECT_EQ(run.code, 2) << layout;
    EXPECT_EQ(run.err,
              "error: --costs: found times, but of no matrix product of this model, expected "
              "costs of the same model, --micro-batch, --slices and --dtype\n");
  }
}

// Costs of 0 are possible, in a trace whose clock stood still.
TEST(SimCommandTest, ARatioToNothingIsNone) {
  EXPECT_EQ(RatioText(1.5, 3), "0.500");
  EXPECT_EQ(RatioText(0, 3), "0.000");
  EXPECT_EQ(RatioText(1.5, 0), "-");
  EXPECT_EQ(RatioText(0, 0), "-");
}

// Whatever it prints, for the options that make lines long.
TEST(SimCommandTest, FitsATerminalOf80Columns) {
  for (const char* arguments :
       {"",
        "--schedule domino_hybrid --model llama3-70b --layers 12 --tp 8 --dp 2 --micro-batch 8 "
        "--slices 4 --splits 2 --sequence-parallel --recompute selective --layer 10",
        "--schedule helix --micro-batches 8 --plan found", "--reference",
        "--reference --shares 0.6",
        "--model gpt3-6.7b --layers 64 --vocab 512 --tp 1 --pp 2,8 --micro-batches 32 "
        "--micro-batch 1 --dtype bf16 --gflops 200000 --membw 2000 --gbps 50 --latency-us 10",
        "--layers 8 --tp 1 --micro-batch 1 --micro-batches 8 --pp 2 --chunks 2,4",
        "--layers 8 --vocab 128 --tp 2 --micro-batch 1 --micro-batches 8 --pp 2 --gbps 1 "
        "--schedule helix --pipeline folded --plan found --ranks-per-node 2 --node-gbps 100"}) {
    const SimRun run = Sim(arguments);
    EXPECT_EQ(run.code, 0) << arguments << ": " << run.err;
    for (const absl::string_view line : absl::StrSplit(run.out, '\n')) {
      EXPECT_LE(line.size(), 80u) << arguments << ":\n" << line;
    }
  }
}

size_t LongestLine(const std::string& text) {
  size_t longest = 0;
  for (const absl::string_view line : absl::StrSplit(text, absl::ByAnyChar("\r\n")))
    longest = std::max(longest, line.size());
  return longest;
}

TEST(SimCommandTest, ATimelineIsAsWideAsItsLine) {
  const std::string flags = "--schedule domino_row";
  for (const int width : {80, 100, 237})
    EXPECT_EQ(LongestLine(Sim(flags, width).out), static_cast<size_t>(width));
  EXPECT_EQ(Sim(flags).out, Sim(flags, 80).out);
  // A flag says more than the terminal, and of one that is too narrow the timeline does not fit.
  EXPECT_EQ(Sim(flags + " --columns 92", 237).out, Sim(flags, 100).out);
  EXPECT_EQ(Sim(flags, 10).out, Sim(flags + " --columns 20").out);
}

// The program itself, which asks its terminal.
TEST(SimCommandTest, TheProgramFillsItsTerminal) {
  winsize size = {};
  size.ws_col = 113;
  size.ws_row = 40;
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    const char* program = STRETTO_BINARY_DIR "/stretto-bench";
    ::execl(program, program, "sim", "--schedule", "domino_row", nullptr);
    ::_exit(127);
  }
  std::string text;
  char block[4096];
  // A terminal whose other side is gone reads as an error.
  for (ssize_t n = 0; (n = ::read(terminal, block, sizeof block)) > 0;)
    text.append(block, static_cast<size_t>(n));
  ::close(terminal);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0) << text;
  EXPECT_EQ(LongestLine(text), 113u) << text;
}

TEST(SimCommandTest, UnknownNamesListTheKnown) {
  GoldenMessages golden("stretto-bench");
  golden.Add(Sim("--model gpt4").err, {"--model", "'gpt4'", "gpt-tiny"});
  golden.Add(Sim("--schedule domino").err, ScheduleNames());
}

TEST(SimCommandTest, HelpNamesEveryScheduleAndGivesExamples) {
  const SimRun run = Sim("--help");
  EXPECT_EQ(run.code, 0);
  std::vector<std::string> facts = ScheduleNames();
  facts.push_back("Examples:");
  GoldenMessages("stretto-bench").Add(run.out, facts);
}

}  // namespace
}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// Jobs that go well, and what they leave behind to look at.

#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/files.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

using TrainTest = ClusterTest;

double LedgerSum(const Json& ledger) {
  double sum = 0;
  for (const Json& entry : ledger.at("entries")) sum += entry.at("seconds").get<double>();
  return sum;
}

double Seconds(const Json& duration) {
  return std::stod(duration.get<std::string>());  // "0.123s"
}

TEST_F(TrainTest, DominoTrainsAndAccountsForEverySecond) {
  StartCluster();
  const Json job =
      RunJob({.name = "domino", .steps = 20, .more = "optimizer: {learning_rate: 3.0e-3}\n"});
  EXPECT_EQ(ConditionOf(job, "Succeeded")["message"], "20 steps");
  const Json& progress = job["progress"];
  EXPECT_EQ(Int(progress["steps"]), 20);
  EXPECT_LT(progress["last_loss"].get<double>(), 0.9 * progress["first_loss"].get<double>());
  ASSERT_EQ(progress["rank_ledgers"].size(), 2u);
  for (const Json& ledger : progress["rank_ledgers"]) {
    const double wall = ledger["wall_seconds"].get<double>();
    EXPECT_NEAR(LedgerSum(ledger), wall, 0.01 * wall);
    EXPECT_EQ(Int(ledger["steps"]), 20);
    EXPECT_GT(ledger["communication_seconds"].get<double>(), 0);
    EXPECT_EQ(ledger.contains("preempted_seconds"),
              std::filesystem::exists("/proc/self/schedstat"));
  }
  const double first_operation = Seconds(job["submit_to_first_operation"]);
  std::cout << "submit_to_first_operation " << first_operation << " s, submit_to_first_step "
            << Seconds(job["submit_to_first_step"]) << " s\n";
  EXPECT_LT(first_operation, 10);  // 3 s on a machine of its own
  EXPECT_GT(first_operation, 0);
  const std::string checkpoint = CheckpointFolder("domino") + "/step-00000020";
  EXPECT_EQ(progress["last_checkpoint"], "step-00000020");
  for (const char* file : {"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(absl::StrCat(checkpoint, "/", file))) << file;
  }
  EXPECT_EQ(NumbersOf(Steps("domino")), Range(1, 20));
  const Outcome logs = Stretto({"job", "logs", "domino", "--rank", "1"});
  EXPECT_EQ(logs.code, 0);
  EXPECT_THAT(logs.out, HasSubstr("ended: Completed after step 20"));
}

TEST_F(TrainTest, MetricsHaveTheDocumentedSeries) {
  StartCluster();
  RunJob({.name = "measured", .steps = 3});
  const std::string cluster = Metrics(metrics_port_);
  // CreateJob twice: the first one looks.
  for (const char* series :
       {"stretto_jobs{state=\"SUCCEEDED\"} 1", "stretto_workers{state=\"READY\"} 1",
        "stretto_job_queue_wait_seconds",
        "stretto_rpcs_total{code=\"OK\",method=\"stretto.v1alpha1.JobService/CreateJob\"} 2",
        "stretto_rpc_duration_seconds", "stretto_build_info"}) {
    EXPECT_THAT(cluster, HasSubstr(series));
  }
  const std::string node = Metrics(worker_ports_["node-a"]);
  for (const char* series :
       {"stretto_step_seconds_count{training_job=\"measured\",rank=\"0\"} 3",
        "stretto_steps_total{training_job=\"measured\",rank=\"1\"} 3",
        "stretto_tokens_total{training_job=\"measured\",rank=\"0\"} 768",
        "stretto_loss{training_job=\"measured\",rank=\"0\"}", "stretto_grad_norm{",
        "stretto_updates_skipped_total{", "stretto_step_ledger_seconds_total{",
        "stretto_communication_seconds_total{", "stretto_communication_hidden_seconds_total{",
        "stretto_trainers 0", "stretto_build_info"}) {
    EXPECT_THAT(node, HasSubstr(series));
  }
}

TEST_F(TrainTest, CancelEndsARunningJobButNotAFinishedOne) {
  StartCluster();
  const auto waiting =
      StartStretto(Submit({.name = "long", .steps = 100000, .more = kSlow}, {"--wait"}));
  ASSERT_TRUE(Eventually([&] { return Stretto({"job", "get", "long"}).code == 0; }));
  AwaitStep("long", 2);
  EXPECT_EQ(Stretto({"job", "cancel", "long"}).code, 0);
  EXPECT_EQ(waiting->Wait(), 4);
  const Json job = Job("long");
  EXPECT_EQ(job["state"], "cancelled");
  EXPECT_FALSE(job.contains("first_failure")) << job["first_failure"];
  const Json ended = ConditionOf(job, "Succeeded");
  EXPECT_EQ(ended["reason"], "Cancelled");
  EXPECT_THAT(ended["message"].get<std::string>(), HasSubstr("of 100000 steps"));

  const Outcome again = Stretto({"job", "cancel", "long"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(
      again.err,
      HasSubstr("job \"long\" has already ended as CANCELLED; only a job that has not ended can be "
                "cancelled"));
}

TEST_F(TrainTest, CancelledBeforeItIsPlacedItNeverRuns) {
  StartCoordinator();
  ASSERT_EQ(Stretto(Submit({.name = "early"}, {})).code, 0);
  EXPECT_EQ(Stretto({"job", "cancel", "early"}).code, 0);
  const Json job = Job("early");
  EXPECT_EQ(job["state"], "cancelled");
  EXPECT_EQ(ConditionOf(job, "Succeeded")["message"], "cancelled before it was placed");
  EXPECT_EQ(Stretto({"job", "watch", "early"}).code, 4);
}

TEST_F(TrainTest, OneRankHalfPrecisionUnequalSlicesAndSeveralMicroBatchesTrain) {
  StartCluster();
  const JobFile jobs[] = {
      {.name = "alone", .tp_size = 1},
      {.name = "half", .more = "precision: bf16\n"},
      {.name = "unequal", .schedule = "{name: domino_row, parameters: {slice_sizes: [1, 3]}}"},
      {.name = "accumulated", .more = "global_batch_size: 8\n"},
      {.name = "accumulated-sync",
       .schedule = "{name: megatron_sync}",
       .more = "global_batch_size: 8\n"}};
  for (const JobFile& file : jobs) {
    const Json progress = RunJob(file)["progress"];
    EXPECT_LT(progress["last_loss"].get<double>(), progress["first_loss"].get<double>())
        << file.name;
    for (const Json& ledger : progress["rank_ledgers"]) {
      const double wall = ledger["wall_seconds"].get<double>();
      EXPECT_NEAR(LedgerSum(ledger), wall, 0.01 * wall) << file.name;
    }
  }
}

// What an all-reduce of this program takes on a link of 1 Gbit/s with `latency`, two ranks.
double WireSeconds(const std::string& program, double latency) {
  std::map<std::string, double> bytes;  // of f32 buffers
  double seconds = 0;
  std::istringstream lines(program);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "buffer") {
      double count = 4;
      for (const absl::string_view extent : absl::StrSplit(words[4], ','))
        count *= std::stod(std::string(extent));
      bytes[words[1]] = count;
    } else if (words.size() > 2 && words[1] == "comm.tp") {
      for (const std::string& word : words) {
        if (absl::StartsWith(word, "out="))
          seconds += 2 * latency + bytes.at(word.substr(4)) / 125e6;
      }
    }
  }
  return seconds;
}

// The words of a text; ages of conditions ("12s"), which grow, are all the same.
std::string WithoutAges(const std::string& text) {
  std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  for (std::string& word : words) {
    const size_t digits = word.find_first_not_of("0123456789");
    if (digits > 0 && digits + 1 == word.size() && std::strchr("smhd", word.back()) != nullptr)
      word = "age";
  }
  return absl::StrJoin(words, " ");
}

TEST_F(TrainTest, ProfileOnAnEmulatedLinkIsVerifiedAndComparable) {
  StartCluster();
  const std::string more =
      "profile: {steps: 2}\ncheckpoint: {disabled: true}\n"
      "emulated_link: {gigabits_per_second: 1, latency_microseconds: 3000}\n";
  const Json sync =
      RunJob({.name = "sync", .steps = 4, .schedule = "{name: megatron_sync}", .more = more});
  const Json domino = RunJob({.name = "domino", .steps = 4, .more = more});
  const double wire = WireSeconds(ReadRun("sync", 0, "program.txt"), 3000e-6);
  EXPECT_GT(wire, 0.01);
  for (const Json& job : {sync, domino}) {
    const Json& profile = job["profile"];
    EXPECT_EQ(profile["verified_parity"], true) << profile;
    EXPECT_THAT(profile["parity_message"].get<std::string>(),
                HasSubstr("bitwise equal to the serial oracle"));
    EXPECT_GE(profile["t_comm"].get<double>(), wire);
    EXPECT_LT(profile["t_comm"].get<double>(), 3 * wire);  // the machine may be busy
    EXPECT_GT(profile["t_comp"].get<double>(), 0);
    EXPECT_GE(profile["t_ideal_step"].get<double>(), profile["t_comm"].get<double>());
  }
  const Json runs = Stretto({"job", "compare", "sync", "domino", "-o", "json"}).json()["runs"];
  ASSERT_EQ(runs.size(), 2u);
  for (const Json& run : runs) {
    for (const char* field :
         {"name", "schedule", "link", "steps", "first_loss", "last_loss",
          "submit_to_first_operation_seconds", "submit_to_first_step_seconds", "tokens_per_second",
          "step_seconds_p50", "t_comp", "t_comm", "t_ideal_step", "hidden_interval", "hidden_saved",
          "ledger", "verified_parity", "parity"}) {
      EXPECT_TRUE(run.contains(field) && !run[field].is_null()) << field << run;
    }
    EXPECT_THAT(run["link"].get<std::string>(), HasSubstr("emulated link"));
    EXPECT_EQ(run["verified_parity"], true);
  }
  EXPECT_GT(runs[1]["hidden_interval"].get<double>(), runs[0]["hidden_interval"].get<double>());
  // Both are of one model, link and layout.
  EXPECT_EQ(runs[0]["t_ideal_step_least"], runs[1]["t_ideal_step_least"]);

  // Nothing that a person reads about an ended job depends on what the coordinator remembers.
  const auto said = [&] {
    return Stretto({"job", "compare", "sync", "domino"}).out +
           Stretto({"job", "compare", "sync", "domino", "-o", "json"}).out +
           Stretto({"job", "get", "domino", "-o", "json"}).out +
           WithoutAges(Stretto({"job", "describe", "sync"}).out) +
           WithoutAges(Stretto({"job", "describe", "domino"}).out);
  };
  const std::string before = said();
  for (const char* part : {"t_serial", "Ledger of rank 0", "Tokens: ", "CONDITION"})
    EXPECT_THAT(before, HasSubstr(part));
  coordinator().Kill();
  StartCoordinator();
  EXPECT_EQ(said(), before);
  EXPECT_EQ(before.find(" nan"), std::string::npos) << before;
}

TEST_F(TrainTest, APrintedJobTrainsTheSameAgain) {
  StartCluster();
  RunJob({.name = "first", .steps = 3});
  const std::string dry =
      Stretto(Submit({.name = "dry", .steps = 3}, {"--dry-run", "-o", "json"})).out;
  const std::string got = Stretto({"job", "get", "first", "-o", "yaml"}).out;
  for (const auto& [name, text] : {std::pair("from-get", got), std::pair("from-dry", dry)}) {
    ASSERT_TRUE(WriteFileAtomic(Path(name), text).ok());
    const Outcome again = Stretto({"job", "submit", Path(name), "--name", name, "--wait"});
    EXPECT_EQ(again.code, 0) << again.err << text;
    EXPECT_EQ(Losses(name), Losses("first"));
  }
}

TEST_F(TrainTest, MistakeInTheJobFileIsNamedWithLineAndColumn) {
  StartCoordinator();
  const Outcome outcome =
      Stretto(Submit({.name = "typo", .more = "optimizer:\n  learning_rat: 1.0e-3\n"}, {}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("typo.yaml:9:3: optimizer: unknown field \"learning_rat\"; "
                                     "did you mean \"learning_rate\"?"));
  const Outcome list = Stretto({"job", "list", "-o", "json"});
  EXPECT_FALSE(list.json().contains("jobs") && !list.json()["jobs"].empty()) << list.out;
}

}  // namespace
}  // namespace stretto::integration

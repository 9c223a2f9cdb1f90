// SPDX-License-Identifier: Apache-2.0

// `stretto job metrics`.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "coordinator/cli/commands/metrics_command.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using v1alpha1::Ledger;
using v1alpha1::StepReport;

constexpr char kHeader[] =
    "step,loss,grad_norm,learning_rate,tokens,wall_seconds,compute_hiding_seconds,"
    "compute_alone_seconds,exposed_seconds,data_wait_seconds,checkpoint_wait_seconds,"
    "evaluation_seconds,idle_seconds,pipeline_wait_seconds,overlap_ratio,held_out_loss,held_out_"
    "perplexity,preempted_seconds\n";

void AddEntry(Ledger::Part part, double seconds, StepReport* step) {
  Ledger::Entry& entry = *step->mutable_ledger()->add_entries();
  entry.set_part(part);
  entry.set_seconds(seconds);
}

// With a ledger and an evaluation.
StepReport WholeStep() {
  StepReport step;
  step.set_step(2);
  step.set_loss(1.0 / 3);
  step.set_grad_norm(1.5);
  step.set_learning_rate(0.001);
  step.set_tokens(256);
  step.set_wall_seconds(1.25);
  AddEntry(Ledger::COMPUTE_HIDING, 0.25, &step);
  AddEntry(Ledger::COMPUTE_ALONE, 0.5, &step);  // forward
  AddEntry(Ledger::COMPUTE_ALONE, 0.125, &step);
  AddEntry(Ledger::EXPOSED, 0.0625, &step);
  AddEntry(Ledger::EVALUATION, 0.3125, &step);
  step.mutable_ledger()->set_communication_seconds(0.5);
  step.mutable_ledger()->set_hidden_seconds(0.25);
  step.mutable_ledger()->set_preempted_seconds(0.75);
  step.mutable_evaluation()->set_loss(2.5);
  step.mutable_evaluation()->set_perplexity(12.5);
  return step;
}

// Of one rank that did not evaluate, and whose loss is lost.
StepReport BareStep() {
  StepReport step;
  step.set_step(3);
  step.set_loss(std::nan(""));
  step.set_tokens(256);
  step.set_wall_seconds(1);
  return step;
}

TEST(MetricsTextTest, CsvHasALineOfNamesAndOneForEachStep) {
  EXPECT_EQ(MetricsCsv({}), kHeader);
  EXPECT_EQ(MetricsCsv({WholeStep(), BareStep()}),
            std::string(kHeader) +
                "2,0.3333333333333333,1.5,0.001,256,1.25,0.25,0.625,0.0625,0,0,0.3125,0,0,0.5,2.5,"
                "12.5,0.75\n"
                "3,nan,0,0,256,1,,,,,,,,,,,,\n");
}

TEST(MetricsTextTest, TheSmallestNumberHasItsDigits) {
  StepReport step = BareStep();
  step.set_loss(std::numeric_limits<double>::denorm_min());
  EXPECT_THAT(MetricsCsv({step}), HasSubstr("3,4.94065645841247e-324,"));
}

TEST(MetricsTextTest, TheDocumentHasTheSameNames) {
  EXPECT_EQ(MetricsDocument({}), Document::array());
  const Document rows = MetricsDocument({WholeStep(), BareStep()});
  ASSERT_EQ(rows.size(), 2u);
  for (const Document& row : rows) EXPECT_EQ(row.size(), 18u);
  EXPECT_EQ(rows[0]["loss"].get<double>(), 1.0 / 3);
  EXPECT_EQ(rows[0]["compute_alone_seconds"], 0.625);
  EXPECT_EQ(rows[0]["held_out_perplexity"], 12.5);
  EXPECT_TRUE(rows[1]["loss"].is_null());
  EXPECT_TRUE(rows[1]["held_out_loss"].is_null());
  EXPECT_TRUE(rows[1]["idle_seconds"].is_null());
  EXPECT_EQ(rows[0]["preempted_seconds"], 0.75);
  EXPECT_TRUE(rows[1]["preempted_seconds"].is_null());
}

class MetricsCommandTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    // One that continues.
    jobs_.watch = [](const auto& request, grpc::ServerContext* context, WatchWriter* writer) {
      Write(writer, MakeJob("gpt", Job::RUNNING, 3));
      for (int64_t step = request.after_step() + 1; step <= 5; ++step) WriteStep(writer, step);
      while (!context->IsCancelled()) std::this_thread::yield();
      return grpc::Status::CANCELLED;
    };
  }
  size_t Lines() const {
    return static_cast<size_t>(std::count(out_.str().begin(), out_.str().end(), '\n'));
  }
};

TEST_F(MetricsCommandTest, PrintsWhatARunningJobHasDone) {
  EXPECT_EQ(Run({"job", "metrics", "gpt"}), kOk) << err();
  EXPECT_EQ(out(), std::string(kHeader) + "1,2,0,0,100,0.5,,,,,,,,,,,,\n" +
                       "2,2,0,0,100,0.5,,,,,,,,,,,,\n" + "3,2,0,0,100,0.5,,,,,,,,,,,,\n");
  const std::string csv = out();
  EXPECT_EQ(Run({"job", "metrics", "gpt", "-o", "table"}), kOk);
  EXPECT_EQ(out(), csv);
}

TEST_F(MetricsCommandTest, TakesARangeOfSteps) {
  const auto steps = [&](const std::string& range) {
    EXPECT_EQ(Run({"job", "metrics", "gpt", "-o", "json", "--steps", range}), kOk) << err();
    std::vector<int> numbers;
    for (const auto& row : nlohmann::json::parse(out())) numbers.push_back(row["step"]);
    return numbers;
  };
  EXPECT_EQ(steps("2:3"), (std::vector{2, 3}));
  EXPECT_EQ(steps("2:"), (std::vector{2, 3}));
  EXPECT_EQ(steps(":2"), (std::vector{1, 2}));
  EXPECT_EQ(steps("3"), (std::vector{3}));
  EXPECT_EQ(steps("7:9"), std::vector<int>{});
  EXPECT_EQ(jobs_.after_steps, (std::vector<int64_t>{1, 1, 0, 2, 6}));
}

TEST_F(MetricsCommandTest, WritesAWholeFileOrNone) {
  const std::string file = dir_ + "/gpt.csv";
  EXPECT_EQ(Run({"job", "metrics", "gpt", "--output", file}), kOk) << err();
  EXPECT_EQ(out(), "");
  ExpectMessage({file + ": 3 steps"});
  std::ifstream written(file);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(written), {}), StartsWith(kHeader));
  EXPECT_EQ(Run({"job", "metrics", "gpt", "--output", dir_ + "/none/gpt.csv"}), kError);
  ExpectMessage({"error: ", dir_ + "/none/gpt.csv"});
}

TEST_F(MetricsCommandTest, RefusesWhatItCannotDo) {
  EXPECT_EQ(Run({"job", "metrics", "gpt", "--steps", "5:4"}), kError);
  ExpectMessage({"error: --steps: ", "found 5:4,"});
  EXPECT_EQ(Run({"job", "metrics", "gpt", "-o", "csv"}), kUsage);
  jobs_.watch = [](const auto&, grpc::ServerContext*, WatchWriter*) {
    return Refusal(grpc::NOT_FOUND, "jobs/gpt does not exist", "JOB_NOT_FOUND");
  };
  EXPECT_EQ(Run({"job", "metrics", "gpt"}), kError);
  EXPECT_THAT(err(), HasSubstr("jobs/gpt does not exist"));
}

// What writes these files is a library of Python.
TEST_F(MetricsCommandTest, ExportsAreMadeByThePythonClient) {
  EXPECT_EQ(Run({"job", "metrics", "gpt", "--tensorboard", "runs", "--coordinator", "a:1",
                 "--token-file", "me.token"}),
            kError);  // the test's process is not replaced
  ASSERT_EQ(replaced_by_.size(), 9u);
  EXPECT_THAT(replaced_by_[2], HasSubstr("stretto.__main__"));
  replaced_by_.erase(replaced_by_.begin() + 2);
  EXPECT_THAT(replaced_by_,
              ElementsAre("python3", "-c", "job", "metrics", "gpt", "--tensorboard=runs",
                          "--coordinator=a:1", "--token-file=me.token"));
  ExpectMessage({"error: ", "python3", "No such file or directory"});
  EXPECT_EQ(Run({"job", "metrics", "gpt", "--wandb", "runs"}), kError);
  EXPECT_EQ(replaced_by_.back(), "--wandb=runs");
}

TEST_F(MetricsCommandTest, AnExportIsOfAllStepsAndOfOneKind) {
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"--wandb", "w"}, {"--steps", "1:2"}, {"--output", "x"}}) {
    std::vector<std::string> words = {"job", "metrics", "gpt", "--tensorboard", "runs"};
    words.insert(words.end(), other.begin(), other.end());
    EXPECT_EQ(Run(words), kUsage);
    ExpectMessage({"error: ", other.front(), "--tensorboard"});
  }
  EXPECT_THAT(replaced_by_, ElementsAre());
}

// By the program itself: its signals and exit codes are those of Python then.
TEST_F(MetricsCommandTest, WithoutThePackageItNamesWhatToInstall) {
  WriteScript(dir_ + "/python3", "exec /usr/bin/env -i /usr/bin/python3 -I -S \"$@\"");
  const std::string command =
      absl::StrCat("PATH=", dir_, " '", STRETTO_BINARY_DIR,
                   "/stretto' job metrics gpt --tensorboard runs 2>'", dir_, "/err'");
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  std::ifstream file(dir_ + "/err");
  std::stringstream said;
  said << file.rdbuf();
  EXPECT_THAT(said.str(), StartsWith("error: python3: found No module named 'stretto', expected "
                                     "the Python package stretto: pip install "));
}

}  // namespace
}  // namespace stretto::cli

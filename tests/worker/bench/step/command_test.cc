// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/step/command.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"
#include "tests/golden_messages.h"
#include "tests/worker/bench/testing/machines.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Said {
  int code = 0;
  std::string out, err;
};

Said Bench(std::vector<std::string> more, const MachineOpener& open,
           std::vector<std::string> model = {"--model", "gpt-tiny"}) {
  std::vector<std::string> arguments = {"--dtype",   "f32", "--sequence",        "16",
                                        "--seconds", "0",   "--warm-up-seconds", "0"};
  arguments.insert(arguments.end(), model.begin(), model.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  std::ostringstream out, err;
  const int code = StepCommand(arguments, out, err, open);
  return {code, out.str(), err.str()};
}

Json Measured(std::vector<std::string> more, const MachineOpener& open,
              std::vector<std::string> model = {"--model", "gpt-tiny"}) {
  const std::string file = ::testing::TempDir() + "/step.json";
  more.insert(more.end(), {"--json", file});
  const Said said = Bench(std::move(more), open, std::move(model));
  EXPECT_EQ(said.code, 0) << said.err;
  const absl::StatusOr<std::string> text = ReadFile(file);
  return text.ok() ? Json::parse(*text) : Json();
}

// 6 (2 (4 64^2 + 2 64 256) + 64 257) + 6 2 64 16, see mfu_test.cc.
constexpr double kTinyFlops = 6 * (2 * (4 * 64 * 64 + 2 * 64 * 256) + 64 * 257) + 6 * 2 * 64 * 16;

TEST(StepCommandTest, AccumulatesTheTokensOfAStepAndReportsEveryFigure) {
  const Json json = Measured({"--micro-batch", "2", "--tokens", "96"}, EmulatedMachine);

  EXPECT_EQ(json["machine"]["name"], kEmulatedName);
  EXPECT_EQ(json["machine"]["driver"], "580.1");
  EXPECT_THAT(json["machine"]["backend"].get<std::string>(), HasSubstr("cuda: device 0"));
  EXPECT_EQ(json["work"]["micro_batches"], 3);
  EXPECT_EQ(json["tokens_per_step"], 96);
  EXPECT_EQ(json["link"], nullptr);
  EXPECT_GE(json["steps"], 3);
  EXPECT_EQ(json["samples"].size(), json["steps"].get<size_t>());
  EXPECT_GT(json["memory_bytes"], 0);
  const double steps = json["steps"], seconds = json["seconds"];
  EXPECT_NEAR(json["tokens_per_second"].get<double>(), 96 * steps / seconds,
              1e-6 * 96 * steps / seconds);
  EXPECT_EQ(json["flops_per_token"], kTinyFlops);
  EXPECT_EQ(json["peak_flops"], 989.4e12);
  const double mfu = json["tokens_per_second"].get<double>() * kTinyFlops / 989.4e12;
  EXPECT_NEAR(json["mfu"].get<double>(), mfu, 1e-9 * mfu);
  EXPECT_NEAR(json["loss_first"].get<double>(), std::log(257), 0.2);
  double sum = 0;
  for (const Json& row : json["breakdown"]) sum += row["seconds"].get<double>();
  EXPECT_NEAR(sum, seconds / steps, 1e-6);
}

TEST(StepCommandTest, OneRankOfSeveralMeetsAnEmulatedLink) {
  const Json json = Measured(
      {"--tp", "2", "--rank", "1", "--micro-batch", "2", "--micro-batches", "2", "--schedule",
       "domino_row", "--link-latency-us", "5", "--link-gbytes", "100", "--link-blocks", "4"},
      EmulatedMachine, {"--model", "llama-tiny"});

  EXPECT_EQ(json["link"]["kind"], "emulated link");
  EXPECT_DOUBLE_EQ(json["link"]["latency_seconds"], 5e-6);
  EXPECT_DOUBLE_EQ(json["link"]["bytes_per_second"], 1e11);
  EXPECT_EQ(json["link"]["blocks"], 4);
  EXPECT_EQ(json["slices"], 2);
  // Each of the two devices does half of a token's work.
  const double both =
      json["tokens_per_second"].get<double>() * json["flops_per_token"].get<double>() / 989.4e12;
  EXPECT_NEAR(json["mfu"].get<double>(), both / 2, 1e-9 * both);
}

TEST(StepCommandTest, OnACpuThereIsAnMfuOnlyAgainstAGivenPeak) {
  EXPECT_EQ(Measured({"--micro-batches", "1"}, OpenMachine)["mfu"], nullptr);
  EXPECT_GT(Measured({"--micro-batches", "1", "--peak-tflops", "0.1"}, OpenMachine)["mfu"], 0);
  EXPECT_THAT(Bench({"--micro-batches", "1"}, OpenMachine).out, HasSubstr("MFU unknown"));
}

TEST(StepCommandTest, WhatDoesNotFitIsRefusedWithTheEstimate) {
  const Said said = Bench({"--micro-batches", "1"}, SmallMachine(1000));
  EXPECT_EQ(said.code, 1);
  GoldenMessages("stretto-bench").Add(said.err, {"1000 B", "optimizer "});
}

TEST(StepCommandTest, AValueThatIsNotFiniteFailsTheRun) {
  const Said said = Bench({"--micro-batches", "1"}, BrokenMachine(4));
  EXPECT_EQ(said.code, 1);
  GoldenMessages("stretto-bench").Add(said.err, {"step 5", "loss inf"});
}

// Three warm-up steps, and two that count.
TEST(StepCommandTest, StepsBeforeAFailureLeaveTheirFigures) {
  const std::string file = ::testing::TempDir() + "/failed-step.json";
  const Said said = Bench({"--micro-batches", "1", "--json", file}, BrokenMachine(5));
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.out, HasSubstr("warm-up step 3: "));
  EXPECT_THAT(said.out, HasSubstr("step 2: "));
  EXPECT_EQ(said.out.find("step 3: "), said.out.rfind("step 3: "));
  const Json json = Json::parse(*ReadFile(file));
  EXPECT_EQ(json["steps"], 2);
  EXPECT_GT(json["tokens_per_second"], 0);
  EXPECT_FALSE(json["breakdown"].empty());
}

TEST(StepCommandTest, WithoutADeviceItSaysWhy) {
  const Said said =
      Bench({"--micro-batches", "1", "--device", "cuda", "--device-index", "1000"}, OpenMachine);
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.err, StartsWith("error: "));
}

TEST(StepCommandTest, WrongFlagsAreRefusedWithFoundAndExpected) {
  using Words = std::vector<std::string>;
  GoldenMessages golden("stretto-bench");
  for (const auto& [arguments, facts] : std::vector<std::pair<Words, Words>>{
           {{"--tokens", "100", "--micro-batch", "2"}, {"--tokens", "100", "32"}},
           {{"--tokens", "64", "--micro-batches", "2"}, {"--tokens", "--micro-batches"}},
           {{"--micro-batches", "1", "--rank", "1"}, {"--rank", "1", "--tp"}},
           {{"--micro-batches", "1", "--peak-tflops", "0"},
            {"--peak-tflops", "0", "from 1e-3 to 1e6"}},
           {{"--micro-batches", "1", "--device", "tpu"}, {"--device", "'tpu'", "cpu, cuda"}},
           {{"--micro-batches", "1", "--tp", "2"}, {"--tp", "2", "--device cpu"}}}) {
    const Said said = Bench(arguments, OpenMachine);
    EXPECT_EQ(said.code, 2) << said.err;
    golden.Add(said.err, facts);
  }
}

TEST(StepCommandTest, HelpIsNotAnError) {
  const Said said = Bench({"--help"}, EmulatedMachine);
  EXPECT_EQ(said.code, 0);
  GoldenMessages("stretto-bench").Add(said.out, {"--tokens", "--peak-tflops", "Example"});
}

}  // namespace
}  // namespace stretto::bench

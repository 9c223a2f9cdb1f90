// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/sampling/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/mutex.h"
#include "tests/worker/test_files.h"
#include "worker/trainer/sampling/run_program.h"

namespace stretto::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class SamplingTest : public testing::Test {
 protected:
  SamplingTest() {
    config_.spec.set_interval_steps(10);
    config_.spec.add_prompts("a");
    config_.spec.add_prompts("b\n");
    config_.spec.set_tokens(3);
    config_.spec.set_temperature(0);
    config_.steps = 25;
    config_.record = folder_ / "samples.jsonl";
  }

  // Completes "x" in "FOLDER" as "FOLDER:x".
  static absl::StatusOr<v1alpha1::Sample> Echo(const std::string& folder, const std::string& prompt,
                                               const std::atomic<bool>&) {
    v1alpha1::Sample sample;
    sample.set_prompt(prompt);
    sample.set_text(absl::StrCat(folder, ":", prompt));
    sample.set_ending("tokens");
    return sample;
  }
  Sampling::Report Reports() {
    return [this](const v1alpha1::Samples& samples) {
      const MutexLock lock(mu_);
      reported_.push_back(samples);
    };
  }
  std::vector<int64_t> Steps() {
    const MutexLock lock(mu_);
    std::vector<int64_t> steps;
    for (const v1alpha1::Samples& samples : reported_) steps.push_back(samples.step());
    return steps;
  }
  static void Wait(Sampling& sampling) {
    sampling.Finish(absl::InfiniteDuration(), [] { return false; });
  }

  TestFolder folder_;
  SamplingConfig config_;
  Mutex mu_;
  std::vector<v1alpha1::Samples> reported_ GUARDED_BY(mu_);
};

TEST_F(SamplingTest, CheckpointsThatAreDueAreSampledAndRecorded) {
  Sampling sampling(config_, Reports(), Echo);
  for (const int64_t step : {5, 10, 15, 20, 25}) {
    sampling.OnCheckpoint(step, absl::StrCat("f", step));
    Wait(sampling);
  }
  EXPECT_THAT(Steps(), ElementsAre(10, 20, 25));  // the last one, too
  const MutexLock lock(mu_);
  ASSERT_EQ(reported_[0].samples_size(), 2);
  EXPECT_EQ(reported_[0].samples(1).prompt(), "b\n");
  EXPECT_EQ(reported_[0].samples(1).text(), "f10:b\n");
  EXPECT_GT(reported_[0].time().seconds(), 0);
  const std::vector<std::string> lines = absl::StrSplit(Slurp(config_.record), '\n');
  ASSERT_EQ(lines.size(), 4u);
  const auto line = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(line["step"], 20);
  EXPECT_EQ(line["samples"][0]["text"], "f20:a");
}

TEST_F(SamplingTest, AFailureIsReportedAndTrainingContinues) {
  Sampling sampling(config_, Reports(),
                    [](const std::string&, const std::string& prompt,
                       const std::atomic<bool>&) -> absl::StatusOr<v1alpha1::Sample> {
                      if (prompt == "a") return v1alpha1::Sample();
                      return absl::NotFoundError("no tokenizer");
                    });
  sampling.OnCheckpoint(10, "f");
  Wait(sampling);
  const MutexLock lock(mu_);
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_EQ(reported_[0].error(), "no tokenizer");
  EXPECT_EQ(reported_[0].samples_size(), 0);
}

// The texts of step 10 are written until all three are due.
TEST_F(SamplingTest, TheNewestCheckpointWaitsAndOlderOnesAreLeftOut) {
  CondVar changed;
  bool begun = false, open = false;
  const auto blocked = [&](const std::string& folder, const std::string& prompt,
                           const std::atomic<bool>& given_up) {
    MutexLock lock(mu_);
    begun = true;
    changed.NotifyAll();
    changed.Wait(mu_, [&]() REQUIRES(mu_) { return open; });
    return Echo(folder, prompt, given_up);
  };
  Sampling sampling(config_, Reports(), blocked);
  sampling.OnCheckpoint(10, "f");
  {
    MutexLock lock(mu_);
    changed.Wait(mu_, [&]() REQUIRES(mu_) { return begun; });
  }
  sampling.OnCheckpoint(20, "f");
  sampling.OnCheckpoint(25, "f");
  {
    const MutexLock lock(mu_);
    open = true;
  }
  changed.NotifyAll();
  Wait(sampling);
  EXPECT_THAT(Steps(), ElementsAre(10, 25));
}

TEST_F(SamplingTest, WhatIsUnderWayIsGivenUpAtTheEnd) {
  {
    Sampling sampling(config_, Reports(),
                      [](const std::string&, const std::string&,
                         const std::atomic<bool>& given_up) -> absl::StatusOr<v1alpha1::Sample> {
                        while (!given_up.load()) std::this_thread::yield();
                        return absl::CancelledError("given up");
                      });
    sampling.OnCheckpoint(10, "f");
    sampling.Finish(absl::InfiniteDuration(), [] { return true; });  // asked to stop
    sampling.Finish(absl::ZeroDuration(), [] { return false; });
  }
  EXPECT_TRUE(Steps().empty());
}

TEST_F(SamplingTest, OnlyTheFirstRankOfAJobThatAsksSamples) {
  v1alpha1::JobSpec spec;
  EXPECT_EQ(SamplingOf(spec, Rank::Of(0), "/r", "/r/c").spec.interval_steps(), 0);
  *spec.mutable_sample() = config_.spec;
  EXPECT_EQ(SamplingOf(spec, Rank::Of(0), "/r", "/r/c").spec.interval_steps(), 10);
  EXPECT_EQ(SamplingOf(spec, Rank::Of(0), "/r", "/r/c").record, "/r/c/samples.jsonl");
  EXPECT_EQ(SamplingOf(spec, Rank::Of(0), "/r", "/r/c").root, "/r");
  EXPECT_EQ(SamplingOf(spec, Rank::Of(1), "/r", "/r/c").spec.interval_steps(), 0);
  Sampling nothing(SamplingOf(spec, Rank::Of(1), "/r", "/r/c"), Reports(), Echo);
  nothing.OnCheckpoint(10, "f");
  Wait(nothing);
  EXPECT_TRUE(Steps().empty());
}

// A program in place of stretto-model, which notes what it was asked.
TEST_F(SamplingTest, TheProgramIsAskedAsAUserWouldAskIt) {
  config_.program = folder_ / "model";
  Spill(config_.program, R"(#!/bin/sh
printf '%s|' "$@" > "$0.asked"
echo '{"text": "\u00e9 x", "ending": "end_of_document"}'
)");
  std::filesystem::permissions(config_.program, std::filesystem::perms::owner_all);
  config_.seed = 7;
  config_.root = "/c";
  config_.spec.mutable_prompts()->RemoveLast();
  config_.spec.set_prompts(0, "-x \"$HOME\" y");
  Sampling sampling(config_, Reports());
  sampling.OnCheckpoint(10, "/c/step-00000010");
  Wait(sampling);
  const MutexLock lock(mu_);
  ASSERT_EQ(reported_.size(), 1u);
  EXPECT_EQ(reported_[0].error(), "");
  ASSERT_EQ(reported_[0].samples_size(), 1);
  EXPECT_EQ(reported_[0].samples(0).text(), "\u00e9 x");
  EXPECT_EQ(reported_[0].samples(0).ending(), "end_of_document");
  EXPECT_EQ(Slurp(config_.program + ".asked"),
            "sample|/c/step-00000010|--prompt=-x \"$HOME\" y|--root|/c|--tokens|3|--temperature|0|"
            "--seed|7|--format|json|--threads|1|");
}

TEST(RunProgramTest, ReturnsWhatItWroteOrWhyItFailed) {
  const std::atomic<bool> no = false, yes = true;
  EXPECT_EQ(*RunProgram({"/bin/sh", "-c", "echo out; echo err >&2"}, no), "out\nerr\n");
  EXPECT_THAT(RunProgram({"/bin/sh", "-c", "echo why; exit 3"}, no).status().ToString(),
              HasSubstr("/bin/sh ended with code 3: why"));
  EXPECT_THAT(RunProgram({"/bin/sh", "-c", "kill -9 $$"}, no).status().ToString(),
              HasSubstr("ended by signal 9"));
  EXPECT_EQ(RunProgram({"/no/such"}, no).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RunProgram({"/bin/sleep", "1000"}, yes).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace stretto::trainer

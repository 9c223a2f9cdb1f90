// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/faults/fault_test.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/clock.h"
#include "tests/integration/table_row.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;

// Longer than every bound: a row that has not come by then is missed by far.
constexpr double kPatience = 120;

std::string Seconds(double seconds) { return absl::StrFormat("%.1f", seconds); }

}  // namespace

void FaultTest::Run(const std::string& name, int step, const std::string& more) {
  const JobFile job = {.name = name, .steps = 100000, .more = absl::StrCat(kSlow, more)};
  ASSERT_EQ(Stretto(Submit(job, {})).code, 0);
  AwaitStep(name, step);
}

void FaultTest::Strike(const std::string& job, const std::function<void()>& fault) {
  job_ = job;
  folder_before_ = RunFolder(job, 0);
  saved_before_ = SavedStep(job);
  trainers_.clear();
  const auto ranks = static_cast<int>(Job(job)["placement"].size());
  for (int rank = 0; rank < ranks; ++rank) trainers_.push_back(TrainerPid(job, rank));
  fault();
  struck_ = Clock::Real().Monotonic();
}

double FaultTest::SinceStrike() const {
  return absl::ToDoubleSeconds(Clock::Real().Monotonic() - struck_);
}

bool FaultTest::AwaitWithin(double seconds, const std::function<bool()>& holds) {
  while (!holds()) {
    if (SinceStrike() > seconds) return false;
    Pause();
  }
  return true;
}

void FaultTest::LetPass(double seconds) {
  (void)AwaitWithin(seconds, [] { return false; });
}

Json FaultTest::AwaitFailure() {
  Json failure;
  const bool seen = AwaitWithin(kPatience, [&] {
    const Json job = Job(job_);
    if (job.contains("first_failure")) {
      failure = job["first_failure"];
    } else if (job["attempts"].size() > 1) {
      failure = job["attempts"][job["attempts"].size() - 2]["first_failure"];
    }
    return !failure.is_null();
  });
  EXPECT_TRUE(seen) << "no failure was seen within " << kPatience << " s";
  NoteSeen();
  return failure;
}

void FaultTest::NoteSeen() {
  const double seconds = SinceStrike();
  seen_ = Seconds(seconds);
  if (seconds > row_.seen_within)
    ADD_FAILURE() << "seen after " << seen_ << " s, must be within " << row_.seen_within << " s";
}

void FaultTest::AwaitTrainingAgain() {
  std::vector<int> steps;
  const bool trains = AwaitWithin(kPatience, [&] {
    if (RunFolder(job_, 0) == folder_before_) return false;
    if (!fs::exists(LogOf(0))) return false;
    steps = StepsLogged(LogOf(0));
    return !steps.empty();
  });
  const double seconds = SinceStrike();
  again_ = trains ? Seconds(seconds) : "never";
  ASSERT_TRUE(trains) << "no attempt trained again: " << Job(job_)["conditions"].dump();
  if (seconds > row_.again_within)
    ADD_FAILURE() << "training again after " << again_ << " s, must be within " << row_.again_within
                  << " s";
  const int last = StepsLogged(folder_before_ + "/trainer.log").back();
  NoteLost(last - steps.front() + 1);
  EXPECT_GT(steps.front(), saved_before_) << "a saved step was trained again";
  EXPECT_LE(steps.front(), last + 1) << "a step was left out";
}

void FaultTest::ExpectUnharmed() {
  const int before = LoggedStep(job_, 0);
  const double limit = SinceStrike() + 30;
  EXPECT_TRUE(AwaitWithin(limit, [&] { return LoggedStep(job_, 0) >= before + 3; }))
      << "training has stopped";
  EXPECT_TRUE(AllAreRunning()) << "a trainer has ended";
  EXPECT_TRUE(AwaitWithin(limit, [&] {
    return Stretto({"job", "get", job_}).code == 0 && Job(job_)["state"] == "running";
  })) << "the job is not RUNNING";
  Stretto({"job", "cancel", job_});
  EXPECT_TRUE(AwaitWithin(limit + 30, [&] { return Job(job_)["state"] == "cancelled"; }));
  const Json job = Job(job_);
  EXPECT_EQ(job["attempt"], 1) << job["attempts"];
  const int64_t steps = Int(job["progress"]["steps"]);
  EXPECT_GE(steps, before + 3);
  const std::vector<int64_t> found = NumbersOf(Steps(job_));
  EXPECT_EQ(found, Range(1, steps)) << "steps are missing";
  NoteLost(steps - static_cast<int64_t>(found.size()));
}

int FaultTest::SavedStep(const std::string& job) const {
  int newest = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(CheckpointFolder(job), none)) {
    int step = 0;
    if (std::sscanf(entry.path().filename().c_str(), "step-%8d", &step) == 1 &&
        fs::exists(entry.path() / "manifest.json")) {
      newest = std::max(newest, step);
    }
  }
  return newest;
}

std::vector<int> FaultTest::StepsLogged(const std::string& log) {
  std::vector<int> steps;
  const std::string text = ContentOf(log);
  for (size_t at = text.find(": step "); at != std::string::npos; at = text.find(": step ", at)) {
    int step = 0;
    if (std::sscanf(text.c_str() + at, ": step %d loss", &step) == 1) steps.push_back(step);
    ++at;
  }
  return steps;
}

bool FaultTest::AllAreRunning() const {
  for (const pid_t pid : trainers_) {
    if (!IsRunning(pid)) return false;
  }
  return true;
}

void FaultTest::TearDown() {
  ClusterTest::TearDown();
  WriteRow({row_.fault, row_.expected, seen_, again_, lost_}, figures_);
}

}  // namespace stretto::integration

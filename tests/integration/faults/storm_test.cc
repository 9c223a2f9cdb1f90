// SPDX-License-Identifier: Apache-2.0

// A storm: a fault every few seconds, drawn from a seed, while one job trains. Printed is the
// effective training time ratio: the steps that count, each as long as before the storm, over the
// time of the storm. The rest is divided into what was between
//   detect   a fault and the end of the attempt that it ended
//   restart  the end of an attempt and the placement of the next one
//   reload   the placement and the first step, which is the trainer's start and its checkpoint
//   redo     steps that were done again
//   slower   steps that took longer, and pauses that ended no attempt
// Afterwards the job's losses and its last checkpoint are those of an undisturbed run, bit by bit.
//
// STRETTO_STORM_SECONDS and STRETTO_STORM_SEED choose the storm (tests/integration/faults.sh).

#include <signal.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "proto/base/files.h"
#include "tests/integration/faults/fault_test.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;

constexpr double kMust = 0.90, kAim = 0.97;
// Of a fault that cannot be noticed by itself a person decides how long to wait; 20 s by default.
constexpr char kHangSeconds[] = "4";
constexpr char kGraceSeconds[] = "2";

double FromEnvironment(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  double number = otherwise;
  return text != nullptr && absl::SimpleAtod(text, &number) ? number : otherwise;
}

double Unix(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

double Unix(const std::string& text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &time, &error)) << text << ": " << error;
  return Unix(time);
}

struct LoggedStepTime {
  int step = 0;
  double end = 0;      // seconds since 1970
  double seconds = 0;  // that it took
};

std::vector<LoggedStepTime> TimesIn(const std::string& log) {
  std::vector<LoggedStepTime> steps;
  for (const absl::string_view line : absl::StrSplit(ContentOf(log), '\n')) {
    const size_t at = line.find(": step "), took = line.find(" seconds ");
    LoggedStepTime found;
    if (at == std::string::npos || took == std::string::npos ||
        std::sscanf(std::string(line.substr(at)).c_str(), ": step %d loss", &found.step) != 1) {
      continue;
    }
    found.end = Unix(std::string(line.substr(0, line.find(' '))));
    found.seconds = std::atof(std::string(line.substr(took + 9)).c_str());
    steps.push_back(found);
  }
  return steps;
}

struct Attempt {
  double start = 0, end = 0;  // as the coordinator saw it; 0: not yet
  std::vector<LoggedStepTime> steps;
};

struct Part {
  double detect = 0, restart = 0, reload = 0, redo = 0;
};

class StormTest : public FaultTest {
 protected:
  JobFile FileOf(const std::string& name, int steps, const std::string& more) const {
    return {.name = name,
            .steps = steps,
            .more = absl::StrCat("optimizer: {decay_steps: 100000}\n", more)};
  }

  void StartAll() {
    StartCoordinator({"--hang-timeout", kHangSeconds});
    StartWorker("node-a", 2, {"--stop-grace", kGraceSeconds});
  }
  // Reads what is known of the attempts by now; the coordinator keeps only the newest of them.
  void Collect() {
    if (wake_coordinator_ + start_coordinator_ > 0) return;  // it would not answer
    const Outcome got = Stretto({"job", "get", "storm", "-o", "json"});
    const Json job = Json::parse(got.out, nullptr, false);
    if (got.code != 0 || !job.is_object()) return;
    for (const Json& found : job["attempts"]) {
      Attempt& attempt = attempts_[found["number"].get<int>()];
      attempt.start = Unix(found["start_time"].get<std::string>());
      if (found.contains("end_time")) attempt.end = Unix(found["end_time"].get<std::string>());
      const std::string newest = RunFolder("storm", 0);
      const std::string log = absl::StrCat(newest.substr(0, newest.rfind("/epoch-")), "/epoch-",
                                           Int(found["epoch"]), "/rank-0/trainer.log");
      if (fs::exists(log)) attempt.steps = TimesIn(log);
    }
  }
  bool Trains() {
    const pid_t pid = TrainerPid("storm", 0);
    return pid > 0 && IsRunning(pid) && IsRunning(TrainerPid("storm", 1));
  }

  void StrikeOnce(std::mt19937_64& random);
  void ReviveAll();
  Part Account(double begin, double end) const;

  std::map<int, Attempt> attempts_;
  std::map<std::string, int> struck_;  // by kind
  std::vector<double> ended_by_;       // times of faults that end an attempt
  // Processes that a later moment wakes or starts again.
  double wake_coordinator_ = 0, start_coordinator_ = 0, wake_worker_ = 0, start_worker_ = 0;
  std::map<pid_t, double> wake_trainer_;
};

void StormTest::StrikeOnce(std::mt19937_64& random) {
  const auto pick = [&random](uint64_t n) { return random() % n; };
  const double now = Unix(absl::Now());
  const double pause = 1 + static_cast<double>(pick(4000)) / 1000;
  const uint64_t dice = pick(100);
  const bool control = wake_coordinator_ + start_coordinator_ + wake_worker_ + start_worker_ > 0;
  if (dice < 25 && !control) {
    ++struck_["coordinator killed"];
    coordinator().Kill();
    start_coordinator_ = now + pause / 2;
  } else if (dice < 50 && !control) {
    ++struck_["coordinator paused"];
    coordinator().Signal(SIGSTOP);
    wake_coordinator_ = now + pause;
  } else if (dice < 70 && !control) {
    ++struck_["worker daemon killed"];
    worker("node-a").Kill();
    start_worker_ = now + pause / 2;
  } else if (dice < 80 && !control) {
    ++struck_["worker daemon paused"];
    worker("node-a").Signal(SIGSTOP);
    wake_worker_ = now + pause / 2;
  } else if (!Trains()) {
    ++struck_["no trainer to strike"];
  } else if (dice < 95) {
    ++struck_["trainer killed"];
    ended_by_.push_back(now);
    kill(TrainerPid("storm", static_cast<int>(pick(2))), SIGKILL);
  } else if (dice < 98) {
    ++struck_["trainer paused"];
    const pid_t pid = TrainerPid("storm", static_cast<int>(pick(2)));
    kill(pid, SIGSTOP);
    wake_trainer_[pid] = now + pause / 4;
  } else {
    ++struck_["trainer hangs"];
    ended_by_.push_back(now);
    kill(TrainerPid("storm", static_cast<int>(pick(2))), SIGSTOP);
  }
}

// What is due.
void StormTest::ReviveAll() {
  const double now = Unix(absl::Now());
  const auto due = [now](double& when) {
    if (when == 0 || now < when) return false;
    when = 0;
    return true;
  };
  if (due(wake_coordinator_)) coordinator().Signal(SIGCONT);
  if (due(start_coordinator_)) StartCoordinator({"--hang-timeout", kHangSeconds});
  if (due(wake_worker_)) worker("node-a").Signal(SIGCONT);
  if (due(start_worker_)) StartWorker("node-a", 2, {"--stop-grace", kGraceSeconds});
  for (auto& [pid, when] : wake_trainer_) {
    if (due(when)) kill(pid, SIGCONT);
  }
}

Part StormTest::Account(double begin, double end) const {
  Part sum;
  for (auto it = attempts_.begin(); it != attempts_.end(); ++it) {
    const auto next = std::next(it);
    const auto& [number, attempt] = *it;
    if (next == attempts_.end()) break;
    double fault = begin;
    for (const double time : ended_by_) {
      if (time <= attempt.end && time > fault) fault = time;
    }
    sum.detect += attempt.end - fault;
    sum.restart += next->second.start - attempt.end;
    const auto& steps = next->second.steps;
    const double first =
        steps.empty() ? std::min(end, next->second.end) : steps.front().end - steps.front().seconds;
    sum.reload += first - next->second.start;
    if (steps.empty() || attempt.steps.empty()) continue;
    for (const LoggedStepTime& step : attempt.steps) {
      if (step.step >= steps.front().step) sum.redo += step.seconds;
    }
  }
  return sum;
}

TEST_F(StormTest, TrainsOn) {
  const double length = FromEnvironment("STRETTO_STORM_SECONDS", 60);
  const auto seed = static_cast<uint64_t>(FromEnvironment("STRETTO_STORM_SEED", 1));
  Expect({absl::StrFormat("a storm: a fault every 3 to 7 s for %.0f s, seed %d", length, seed),
          "at least 90 % of the time trains steps that count; every bit as undisturbed"});
  StartAll();
  ASSERT_EQ(Stretto(Submit(FileOf("storm", 100000, absl::StrCat(kSlow, kRestarts)), {})).code, 0);
  AwaitStep("storm", 1);
  Strike("storm", [] {});
  ASSERT_TRUE(AwaitWithin(300, [&] { return LoggedStep("storm", 0) > 105; }));
  Strike("storm", [] {});
  Collect();
  const std::vector<LoggedStepTime> calm = attempts_[1].steps;
  ASSERT_GT(calm.size(), 100u);
  const double step_seconds = (calm[100].end - calm[0].end) / 100;

  std::mt19937_64 random(seed);
  const double begin = Unix(absl::Now());
  const int first = calm.back().step;
  double next = 0;
  while (SinceStrike() < length) {
    ReviveAll();
    if (SinceStrike() >= next) {
      Collect();
      StrikeOnce(random);
      next = SinceStrike() + 3 + static_cast<double>(random() % 4000) / 1000;
    }
    Pause();
  }
  const double end = Unix(absl::Now());
  const int last = LoggedStep("storm", 0);
  const bool revived = AwaitWithin(length + 120, [&] {
    ReviveAll();
    return wake_coordinator_ + start_coordinator_ + wake_worker_ + start_worker_ == 0 && Trains() &&
           LoggedStep("storm", 0) >= last + 3;
  });
  ASSERT_TRUE(revived) << "the job does not train after the storm";
  Collect();
  Stretto({"job", "cancel", "storm"});
  const int64_t steps = Int(AwaitState("storm", "cancelled")["progress"]["steps"]);

  const double whole = end - begin;
  const double ratio = (last - first) * step_seconds / whole;
  const Part part = Account(begin, end);
  const double slower = whole * (1 - ratio) - part.detect - part.restart - part.reload - part.redo;
  const auto percent = [whole](double seconds) { return 100 * seconds / whole; };
  std::string kinds;
  for (const auto& [kind, count] : struck_) absl::StrAppend(&kinds, ", ", kind, " ", count);
  NoteFigures(absl::StrFormat(
      "effective training time ratio %.1f %% (must %.0f %%, aim %.0f %%): detect %.1f %%, restart "
      "%.1f %%, reload %.1f %%, redo %.1f %%, slower %.1f %%; %d steps of %.3f s, %d attempts%s",
      100 * ratio, 100 * kMust, 100 * kAim, percent(part.detect), percent(part.restart),
      percent(part.reload), percent(part.redo), percent(slower), last - first, step_seconds,
      attempts_.size(), kinds));
  if (ratio < kMust) ADD_FAILURE() << "the ratio is too low";

  // Trainers that were killed while no daemon watched them count against their worker.
  Stretto({"worker", "uncordon", "node-a"});
  ASSERT_EQ(Stretto(Submit(FileOf("calm", static_cast<int>(steps), ""), {})).code, 0);
  const double limit = SinceStrike() + 300;
  ASSERT_TRUE(AwaitWithin(limit, [&] {
    return Stretto({"job", "get", "calm", "-o", "json"}).json()["state"] == "succeeded";
  })) << Stretto({"job", "describe", "calm"}).out;
  std::map<int64_t, double> undisturbed;
  for (const Json& step : Steps("calm")) undisturbed[Int(step["step"])] = step["loss"];
  int compared = 0;
  for (const Json& step : Steps("storm")) {
    const auto found = undisturbed.find(Int(step["step"]));
    if (found == undisturbed.end()) continue;  // long runs keep a part of their steps
    EXPECT_EQ(step["loss"].get<double>(), found->second) << "step " << step["step"];
    ++compared;
  }
  NoteFigures(absl::StrFormat("losses of %d steps of %d compared", compared, steps));
  EXPECT_GE(compared, std::min<int64_t>(steps, 500));
  const std::string folder = absl::StrFormat("/step-%08d", steps);
  for (const auto& entry : fs::directory_iterator(CheckpointFolder("calm") + folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string other =
        CheckpointFolder("storm") + folder + "/" + entry.path().filename().string();
    EXPECT_EQ(ContentOf(entry.path()), ContentOf(other)) << entry.path();
  }
}

}  // namespace
}  // namespace stretto::integration

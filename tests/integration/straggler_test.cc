// SPDX-License-Identifier: Apache-2.0

// A rank that is slower than the other rank of its stage: its process is stopped and continued many
// times in a step, so it has two fifths of the time. Programs that use its core would be the more
// usual cause, but on a machine with other work the kernel moves that to the other core, and then
// both ranks are as slow. Replicas compute for long between two collectives, so nearly all stops
// meet their computation.

#include <signal.h>

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

constexpr char kModel[] =
    "{layers: 2, hidden: 256, heads: 4, sequence_length: 128, vocab_size: 300}";
constexpr char kJob[] = "slowed";

// Lets a process run for 4 of every 10 ms. The process continues with the end of this object.
class SlowProcess {
 public:
  explicit SlowProcess(pid_t pid) : pid_(pid), thread_([this] { Run(); }) {}
  ~SlowProcess() {
    stop_ = true;
    thread_.join();
  }
  SlowProcess(const SlowProcess&) = delete;
  SlowProcess& operator=(const SlowProcess&) = delete;

 private:
  void Run() const {
    while (!stop_) {
      kill(pid_, SIGSTOP);
      absl::SleepFor(absl::Milliseconds(6));
      kill(pid_, SIGCONT);
      absl::SleepFor(absl::Milliseconds(4));
    }
  }

  const pid_t pid_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class StragglerTest : public ClusterTest, public ::testing::WithParamInterface<int> {
 protected:
  Json AwaitBalanced(const std::string& status) {
    Json found;
    AwaitJob(kJob, "RanksBalanced " + status, [&](const Json& job) {
      for (const Json& condition : job["conditions"]) {
        if (condition["type"] == "RanksBalanced") found = condition;
      }
      return !found.is_null() && found["status"] == status;
    });
    return found;
  }
  // For how long the other rank has waited for this one; -1 if the coordinator does not say.
  double LostSeconds(int rank) {
    for (const absl::string_view line : absl::StrSplit(Metrics(metrics_port_), '\n')) {
      double seconds = 0;
      if (absl::StartsWith(line, "stretto_straggler_seconds_total{") &&
          absl::StrContains(line, absl::StrCat("rank=\"", rank, "\"")) &&
          absl::SimpleAtod(line.substr(line.find("} ") + 2), &seconds)) {
        return seconds;
      }
    }
    return -1;
  }
};

TEST_P(StragglerTest, IsNamedWhileItIsSlow) {
  const int slow = GetParam(), other = 1 - slow;
  StartCoordinator();
  StartWorker("node-a", 1);
  StartWorker("node-b", 1);
  const JobFile file = {.name = kJob,
                        .steps = 1000000,
                        .model = kModel,
                        .tp_size = 1,
                        .dp_size = 2,
                        .schedule = "{name: megatron_sync}",
                        .more = kSplit};
  ASSERT_EQ(Stretto(Submit(file, {})).code, 0);
  const Json job = AwaitStep(kJob, 3);
  {
    const SlowProcess slowed(TrainerPid(kJob, slow));
    const Json found = AwaitBalanced("false");
    ASSERT_FALSE(found.is_null());
    EXPECT_EQ(found["reason"], "Straggler");
    const std::string worker = job["placement"][slow]["worker"];
    EXPECT_THAT(found["message"].get<std::string>(),
                HasSubstr(absl::StrCat("rank ", slow, " on worker ",
                                       worker.substr(std::string("workers/").size()),
                                       ": 1 other rank of its stage waits for it in ")));
    EXPECT_GT(LostSeconds(slow), LostSeconds(other));
  }
  AwaitBalanced("true");
}

INSTANTIATE_TEST_SUITE_P(Ranks, StragglerTest, ::testing::Values(0, 1),
                         [](const auto& info) { return absl::StrCat("Rank", info.param); });

}  // namespace
}  // namespace stretto::integration

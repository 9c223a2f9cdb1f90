// SPDX-License-Identifier: Apache-2.0

// Checkpoints that are written while training continues, on a disk that stands still.

#include <signal.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "tests/integration/faults/slow_calls.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class AsynchronousTest : public ClusterTest {
 protected:
  ~AsynchronousTest() override { KillAll(); }  // a trainer may wait for its disk

  static JobFile Job30(const std::string& name, const std::string& checkpoint,
                       const std::string& more = "") {
    return {.name = name,
            .steps = 30,
            .more = absl::StrCat(kSlow, "checkpoint: {interval_steps: 5, keep: 0", checkpoint,
                                 "}\n", more)};
  }
  // A worker whose trainers wait for fsync as long as `calls_` says.
  void StartSlowCluster() {
    calls_.Wrap(STRETTO_BINARY_DIR "/stretto-trainer", Path("slow-trainer"));
    StartCoordinator();
    StartWorker("node-a", 2, {"--trainer", Path("slow-trainer")});
  }
  // Submits the job, and returns when it waits for `disk` to write a file of step 10 or 15.
  void AwaitSlowFile(const JobFile& job, absl::Duration disk) {
    ASSERT_EQ(Stretto(Submit(job, {})).code, 0);
    AwaitJob(job.name, "its first checkpoint",
             [](const Json& job) { return !job["progress"].value("last_checkpoint", "").empty(); });
    calls_.DelaySync(disk);
    ASSERT_TRUE(Eventually([&] { return !calls_.delays(); })) << "no fsync was delayed";
  }
  std::set<std::string> FoldersOf(const std::string& job) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(CheckpointFolder(job)))
      names.insert(entry.path().filename());
    return names;
  }
  void ExpectUndisturbed(const std::string& name) {
    RunJob(Job30("calm", ", asynchronous: false"));
    EXPECT_EQ(NumbersOf(Steps(name)), Range(1, 30));
    EXPECT_EQ(Losses(name), Losses("calm"));
    for (int rank : {0, 1}) {
      const std::string file = absl::StrCat("/step-00000030/rank-0000", rank, ".safetensors");
      EXPECT_EQ(ContentOf(CheckpointFolder(name) + file),
                ContentOf(CheckpointFolder("calm") + file));
    }
  }

  SlowCalls calls_{Path("calls")};
};

TEST_F(AsynchronousTest, FilesAndLossesAreThoseOfSynchronousOnes) {
  StartCluster();
  RunJob(Job30("copied", ", asynchronous: true"));
  EXPECT_THAT(ReadRun("copied", 0, "trainer.log"), HasSubstr("checkpoints are asynchronous"));
  EXPECT_THAT(Metrics(worker_ports_["node-a"]),
              HasSubstr("stretto_arena_bytes{training_job=\"copied\",rank=\"0\","
                        "arena=\"checkpoint_copy\"}"));
  ExpectUndisturbed("copied");
  EXPECT_THAT(ReadRun("calm", 0, "trainer.log"), HasSubstr("checkpoints are synchronous"));
  EXPECT_EQ(FoldersOf("copied"), FoldersOf("calm"));
  for (const std::string& step : FoldersOf("calm")) {
    for (int rank : {0, 1}) {
      const std::string file = absl::StrCat("/", step, "/rank-0000", rank, ".safetensors");
      EXPECT_EQ(ContentOf(CheckpointFolder("copied") + file),
                ContentOf(CheckpointFolder("calm") + file))
          << file;
    }
  }
}

// Training has left the step behind, and the file is not there yet.
TEST_F(AsynchronousTest, KilledWhileAFileIsWrittenItContinuesFromTheOneBefore) {
  StartSlowCluster();
  AwaitSlowFile(Job30("killed", "", "restart: {backoff: 0}\n"), absl::Hours(1));
  const std::string saved = Job("killed")["progress"]["last_checkpoint"];
  const int written = std::stoi(saved.substr(5)) + 5;
  AwaitStep("killed", written + 4);
  const std::string under_way = absl::StrCat("step-000000", written < 10 ? "0" : "", written);
  EXPECT_THAT(FoldersOf("killed"), Not(Contains(under_way)));
  EXPECT_THAT(FoldersOf("killed"), Contains(HasSubstr(under_way + ".tmp-")));
  for (int rank : {0, 1}) ASSERT_EQ(kill(TrainerPid("killed", rank), SIGKILL), 0);
  EXPECT_EQ(AwaitState("killed", "succeeded")["attempt"], 2);
  EXPECT_THAT(ReadRun("killed", 0, "trainer.log"), HasSubstr("/killed/" + saved));
  EXPECT_THAT(FoldersOf("killed"), Not(Contains(HasSubstr(".tmp-"))));
  ExpectUndisturbed("killed");
}

// It ends when both are there: the one under way, and that of the steps since.
TEST_F(AsynchronousTest, SuspendedWhileAFileIsWrittenItLosesNoStep) {
  StartSlowCluster();
  AwaitSlowFile(Job30("paused", ""), absl::Seconds(3));
  EXPECT_EQ(Stretto({"job", "suspend", "paused"}).code, 0);
  const Json paused = AwaitState("paused", "suspended");
  const std::string last = paused["progress"]["last_checkpoint"];
  EXPECT_EQ(std::stoll(last.substr(5)), Int(paused["progress"]["steps"]));
  EXPECT_THAT(FoldersOf("paused"), Contains(last));
  EXPECT_THAT(FoldersOf("paused"), Not(Contains(HasSubstr(".tmp-"))));
  EXPECT_EQ(Stretto({"job", "resume", "paused"}).code, 0);
  AwaitState("paused", "succeeded");
  ExpectUndisturbed("paused");
}

}  // namespace
}  // namespace stretto::integration

// SPDX-License-Identifier: Apache-2.0

// `stretto job checkpoint` on real processes.

#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class SaveOnRequestTest : public ClusterTest {
 protected:
  // Writes no checkpoint of its own but the last.
  void SubmitAndAwait(const std::string& name, int steps, int step) {
    ASSERT_EQ(Stretto(Submit({.name = name, .steps = steps, .more = kSlow}, {})).code, 0);
    AwaitStep(name, step);
  }
};

TEST_F(SaveOnRequestTest, RunningJobSavesAndTrainsOnWithTheSameNumbers) {
  StartCluster();
  SubmitAndAwait("asked", 30, 3);
  const Outcome saved = Stretto({"job", "checkpoint", "asked", "--wait"});
  EXPECT_EQ(saved.code, 0) << saved.err;
  ASSERT_THAT(saved.out, MatchesRegex("step-000000[0-9][0-9]\n"));
  const std::string step(absl::StripSuffix(saved.out, "\n"));
  EXPECT_TRUE(std::filesystem::exists(CheckpointFolder("asked") + "/" + step));
  const Json job = AwaitState("asked", "succeeded");
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_LT(step, "step-00000030");
  EXPECT_THAT(Stretto({"job", "events", "asked"}).out, HasSubstr("CheckpointAsked"));
  EXPECT_EQ(ConditionOf(job, "CheckpointRequested")["message"], step);
  const Outcome late = Stretto({"job", "checkpoint", "asked"});
  EXPECT_NE(late.code, 0);
  EXPECT_THAT(late.err, HasSubstr("is SUCCEEDED; only a RUNNING job"));
  RunJob({.name = "calm", .steps = 30});
  EXPECT_EQ(Losses("asked"), Losses("calm"));
  // Both ranks saved one step: another run continues from it.
  RunJob({.name = "next",
          .steps = 30,
          .more = absl::StrCat("checkpoint: {resume_from: asked/", step, "}\n")});
  EXPECT_EQ(Losses("next").back(), Losses("calm").back());
}

// The request is stored before it is sent, and sent again to a worker that registers.
TEST_F(SaveOnRequestTest, RequestOutlastsTheCoordinatorAndAWorkerThatIsAway) {
  StartCluster();
  SubmitAndAwait("patient", 400, 2);
  worker("node-a").Signal(SIGSTOP);
  const auto waits = StartStretto({"job", "checkpoint", "patient", "--wait"});
  AwaitJob("patient", "an open request", [](const Json& job) {
    return std::any_of(job["conditions"].begin(), job["conditions"].end(), [](const Json& one) {
      return one["type"] == "CheckpointRequested" && one["status"] == "true";
    });
  });
  coordinator().Kill();
  StartCoordinator();
  worker("node-a").Signal(SIGCONT);
  EXPECT_EQ(waits->Wait(), 0) << waits->err();
  EXPECT_THAT(waits->out(), MatchesRegex("step-[0-9]+\n"));
  EXPECT_EQ(Job("patient")["state"], "running");
}

TEST_F(SaveOnRequestTest, CheckpointThatCannotBeWrittenIsReportedAndHarmsNothing) {
  StartCluster();
  std::filesystem::create_directories(checkpoint_root_);
  SubmitAndAwait("blocked", 400, 2);
  std::filesystem::remove_all(CheckpointFolder("blocked"));
  std::ofstream(CheckpointFolder("blocked")) << "a file where the folder should be";
  const Outcome failed = Stretto({"job", "checkpoint", "blocked", "--wait"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("error: job blocked saved no checkpoint: step "),
                                HasSubstr(CheckpointFolder("blocked"))));
  std::filesystem::remove(CheckpointFolder("blocked"));
  EXPECT_EQ(Stretto({"job", "checkpoint", "blocked", "--wait"}).code, 0);
  EXPECT_EQ(Job("blocked")["state"], "running");
}

}  // namespace
}  // namespace stretto::integration

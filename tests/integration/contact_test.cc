// SPDX-License-Identifier: Apache-2.0

// A worker and the coordinator out of contact, while both are well.

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/integration/cluster.h"
#include "tests/integration/cut_link.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

class ContactTest : public ClusterTest {
 protected:
  // A fraction of the time that people have. node-a is behind the link.
  void Start(const std::string& lost_rank_timeout) {
    StartCoordinator({"--lease", "1", "--lost-rank-timeout", lost_rank_timeout});
    link_ = std::make_unique<CutLink>(grpc_port_);
    StartWorker("node-a", 2, {"--lease", "2", "--coordinator", link_->address()});
  }
  static JobFile SlowJob(const std::string& name, int steps, const std::string& restart = "") {
    return {.name = name,
            .steps = steps,
            .more = absl::StrCat(kSlow, "checkpoint: {interval_steps: 5}\n", restart)};
  }
  // The same numbers, without the slow link.
  std::vector<double> CalmLosses(int steps) {
    RunJob({.name = "calm", .steps = steps});
    return Losses("calm");
  }
  void RunAndCut(const JobFile& job) {
    ASSERT_EQ(Stretto(Submit(job, {})).code, 0);
    AwaitStep(job.name, 3);
    link_->Cut();
  }
  std::unique_ptr<CutLink> link_;
};

TEST_F(ContactTest, ARunContinuesThroughACut) {
  Start("4");
  RunAndCut(SlowJob("apart", 40));
  const Json job = AwaitJob("apart", "out of contact", [](const Json& now) {
    return absl::StrContains(now["conditions"].dump(), "WorkersReachable");
  });
  EXPECT_EQ(job["state"], "running");
  EXPECT_THAT(ConditionOf(job, "WorkersReachable")["message"].get<std::string>(),
              HasSubstr("no contact with node-a; the run continues there if contact returns"));
  EXPECT_GT(LoggedStep("apart", 0), Int(job["progress"]["steps"]));  // it trains on
  link_->Heal();
  const Json ended = AwaitState("apart", "succeeded");
  EXPECT_EQ(ended["attempt"], 1);
  EXPECT_EQ(ConditionOf(ended, "WorkersReachable")["reason"], "Returned");
  EXPECT_EQ(NumbersOf(Steps("apart")), Range(1, 40));
  EXPECT_EQ(Losses("apart"), CalmLosses(40));
}

TEST_F(ContactTest, ARunThatMovedLeavesNothingBehindThatSaves) {
  constexpr int kSteps = 80;  // three times as many as there is time for until it moves
  Start("1");
  RunAndCut(SlowJob("moved", kSteps, "restart: {backoff: 0}\n"));
  const pid_t trainers[] = {TrainerPid("moved", 0), TrainerPid("moved", 1)};
  StartWorker("node-b", 2);
  AwaitJob("moved", "in its second attempt", [](const Json& job) { return job["attempt"] == 2; });
  // Nobody can tell them to stop. Their next checkpoint is refused, and that ends them.
  for (const pid_t pid : trainers) EXPECT_TRUE(Eventually([&] { return !IsRunning(pid); }));
  const Json job = AwaitState("moved", "succeeded");
  EXPECT_EQ(job["attempts"][0]["cause"], "node_loss");
  EXPECT_EQ(job["attempts"][1]["workers"], Json({"workers/node-b"}));
  link_->Heal();
  // Reports that waited behind the cut are refused, so the steps of a while are missing; those that
  // are there have the numbers of a run that nothing disturbed.
  const std::vector<double> calm = CalmLosses(kSteps);
  const std::vector<Json> steps = Steps("moved");
  EXPECT_EQ(NumbersOf(steps).back(), kSteps);
  for (const Json& step : steps)
    EXPECT_EQ(step["loss"].get<double>(), calm[static_cast<size_t>(Int(step["step"])) - 1]);
}

// Nobody can tell them to stop either, and no checkpoint of theirs is refused. They find out that a
// newer attempt has begun.
TEST_F(ContactTest, ARunThatMovedLeavesNothingBehindThatNeverSaves) {
  Start("1");
  RunAndCut({.name = "unsaved",
             .steps = 1000000,
             .more = absl::StrCat(kSlow, "restart: {backoff: 0}\n")});
  const pid_t trainers[] = {TrainerPid("unsaved", 0), TrainerPid("unsaved", 1)};
  const std::string log = RunFolder("unsaved", 0) + "/trainer.log";
  StartWorker("node-b", 2);
  AwaitJob("unsaved", "in its second attempt", [](const Json& job) { return job["attempt"] == 2; });
  for (const pid_t pid : trainers) EXPECT_TRUE(Eventually([&] { return !IsRunning(pid); }));
  EXPECT_THAT(*ReadFile(log), HasSubstr("failed: StaleEpoch at step "));
  EXPECT_EQ(Job("unsaved")["state"], "running");
}

}  // namespace
}  // namespace stretto::integration

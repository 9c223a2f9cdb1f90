// SPDX-License-Identifier: Apache-2.0

// The command line on a cluster of real processes: labels, fields on the command line, clones, more
// steps, selected logs, and names that are free again.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

class CommandLineTest : public ClusterTest {};

TEST_F(CommandLineTest, MoreStepsContinueAJobBitByBit) {
  StartCluster();
  RunJob({.name = "straight", .steps = 8, .more = "optimizer: {decay_steps: 4}\n"});
  RunJob({.name = "more", .steps = 4});
  EXPECT_EQ(Stretto({"job", "resume", "more"}).code, 1);  // it has succeeded
  const Outcome resumed = Stretto({"job", "resume", "more", "--steps", "8"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  const Json job = AwaitState("more", "succeeded");
  EXPECT_EQ(job["progress"]["steps"], 8);
  EXPECT_EQ(job["spec"]["optimizer"]["decay_steps"], 4);
  EXPECT_EQ(job["attempt"], 2);
  const std::vector<double> losses = Losses("more");
  EXPECT_EQ(losses, Losses("straight"));
  ASSERT_EQ(losses.size(), 8u);
}

TEST_F(CommandLineTest, ACloneFollowsWhatIsSet) {
  StartCluster();
  RunJob({.name = "gpt", .steps = 3, .more = "labels: {team: speech}\n"});
  const Outcome same = Stretto({"job", "clone", "gpt", "--wait"});
  ASSERT_EQ(same.code, 0) << same.err;
  EXPECT_EQ(Losses("gpt-2"), Losses("gpt"));
  EXPECT_EQ(Job("gpt-2")["spec"], Job("gpt")["spec"]);
  const Outcome changed =
      Stretto({"job", "clone", "gpt", "--name", "long", "--set", "steps=5", "--set",
               "micro_batch_size=2", "--set", "labels.team=text", "--wait"});
  ASSERT_EQ(changed.code, 0) << changed.err;
  EXPECT_EQ(Job("long")["spec"]["optimizer"]["decay_steps"], 5);
  EXPECT_EQ(Losses("long").size(), 5u);
  const Json listed = Stretto({"job", "list", "--label", "team=speech", "-o", "json"}).json();
  ASSERT_EQ(listed["jobs"].size(), 2u);
  EXPECT_EQ(listed["jobs"][0]["name"], "jobs/gpt-2");
  EXPECT_EQ(Stretto({"job", "list", "--state", "running", "-o", "json"}).json()["jobs"].size(), 0u);
  EXPECT_THAT(Stretto({"job", "describe", "long"}).out, HasSubstr("Labels:      team=text\n"));
}

TEST_F(CommandLineTest, LogsAreSelectedAndTopShowsAJobThatRuns) {
  StartCluster();
  ASSERT_EQ(Stretto(Submit({.name = "slow", .steps = 2000, .more = kSlow}, {})).code, 0);
  AwaitStep("slow", 3);
  const Json top = Stretto({"top", "-o", "json"}).json();
  EXPECT_EQ(top["slots"]["used"], 2);
  ASSERT_EQ(top["jobs"].size(), 1u);
  EXPECT_EQ(top["jobs"][0]["name"], "slow");
  EXPECT_GT(top["jobs"][0]["steps_per_second"].get<double>(), 0);
  EXPECT_GT(top["jobs"][0]["exposed_share"].get<double>(), 0);
  EXPECT_LE(top["jobs"][0]["exposed_share"].get<double>(), 1);
  ASSERT_EQ(Stretto({"job", "cancel", "slow"}).code, 0);
  AwaitState("slow", "cancelled");
  const std::string all = Stretto({"job", "logs", "slow", "--rank", "0"}).out;
  const std::string last = Stretto({"job", "logs", "slow", "--rank", "0", "--tail", "2"}).out;
  EXPECT_EQ(std::count(last.begin(), last.end(), '\n'), 2);
  ASSERT_LT(last.size(), all.size());
  EXPECT_EQ(all.substr(all.size() - last.size()), last);
  // The daemon's first line has no time, and none before it.
  const std::string timed = all.substr(all.find('\n') + 1);
  EXPECT_EQ(Stretto({"job", "logs", "slow", "--rank", "0", "--since", "1h"}).out, timed);
  EXPECT_EQ(Stretto({"job", "logs", "slow", "--rank", "0", "--since", "0s"}).out, "");
  const std::string first_line = timed.substr(0, timed.find('\n') + 1);
  const std::string time = first_line.substr(0, first_line.find(' '));
  EXPECT_THAT(Stretto({"job", "logs", "slow", "--rank", "0", "--grep", time}).out,
              HasSubstr(first_line));
}

TEST_F(CommandLineTest, ANameIsFreeAgainAfterADelete) {
  StartCluster();
  RunJob({.name = "again", .steps = 4});
  const std::vector<double> before = Losses("again");
  ASSERT_EQ(Stretto({"job", "delete", "again"}).code, 0);
  const Outcome gone = Stretto({"job", "get", "again"});
  EXPECT_EQ(gone.code, 1);
  // It begins from the first step, though checkpoints of the name are on disk.
  RunJob({.name = "again", .steps = 6, .more = "optimizer: {decay_steps: 4}\n"});
  const std::vector<double> after = Losses("again");
  ASSERT_EQ(after.size(), 6u);
  EXPECT_EQ(std::vector<double>(after.begin(), after.begin() + 4), before);
}

}  // namespace
}  // namespace stretto::integration

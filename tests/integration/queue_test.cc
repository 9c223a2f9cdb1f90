// SPDX-License-Identifier: Apache-2.0

// Priorities and quotas on real processes.

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

class QueueTest : public ClusterTest {
 protected:
  std::vector<std::string> EventsOf(const std::string& name) {
    std::vector<std::string> reasons;
    const Json answer = Stretto({"job", "events", name, "-o", "json"}).json();
    for (const Json& event : answer["events"]) reasons.push_back(event["reason"]);
    return reasons;
  }
};

TEST_F(QueueTest, PreemptedJobLosesNoStepAndNoBit) {
  StartCluster();
  // No interval and no policy: only the preemption asks for a checkpoint before the last step.
  const JobFile low = {.name = "low", .steps = 12, .more = kSlow};
  ASSERT_EQ(Stretto(Submit(low, {})).code, 0);
  AwaitStep("low", 4);
  const auto events = StartStretto({"job", "events", "low", "-f"});
  RunJob({.name = "high", .steps = 2, .more = "queue: {priority: 10, project: speech}\n"});
  const Json job = AwaitState("low", "succeeded");
  ASSERT_EQ(job["attempts"].size(), 2u) << job["attempts"];
  EXPECT_EQ(job["attempts"][0]["cause"], "preemption");
  EXPECT_EQ(job["restarts"], 0);
  const int64_t saved = Int(job["attempts"][0]["steps"]);
  EXPECT_GE(saved, 4);
  EXPECT_LT(saved, 12);
  const std::vector<Json> steps = Steps("low");
  EXPECT_EQ(NumbersOf(steps), Range(1, 12));
  for (const Json& step : steps) {
    EXPECT_EQ(step["attempt"], Int(step["step"]) <= saved ? 1 : 2) << step["step"];
  }
  EXPECT_THAT(EventsOf("low"), ::testing::ElementsAre("Created", "Placed", "Training", "Preemption",
                                                      "Saved", "Preemption", "Placed", "Training",
                                                      "Restarted", "Saved", "Completed"));
  EXPECT_EQ(events->Wait(), 0);
  EXPECT_THAT(events->out(), HasSubstr("job high of priority 10 needs its slots"));
  EXPECT_THAT(events->out(), HasSubstr("12 steps"));
  EXPECT_THAT(Stretto({"job", "list", "--project", "speech"}).out, HasSubstr("high"));
  RunJob({.name = "calm", .steps = 12, .more = kSlow});
  EXPECT_EQ(Losses("low"), Losses("calm"));
}

TEST_F(QueueTest, QuotaIsRefusedAndWaitedFor) {
  StartCoordinator({"--quota", "speech:devices=2,queued=1", "--quota", "default:devices=2"});
  StartWorker("node-a", 4);
  const JobFile one = {
      .name = "one", .steps = 40, .more = absl::StrCat(kSlow, "queue: {project: speech}\n")};
  JobFile two = one;
  two.name = "two";
  two.steps = 1;
  ASSERT_EQ(Stretto(Submit(one, {})).code, 0);
  ASSERT_EQ(Stretto(Submit(two, {})).code, 0);
  EXPECT_THAT(Stretto({"job", "describe", "two"}).out,
              HasSubstr("project speech uses 2 of its 2 devices; this job needs 2"));
  JobFile three = two;
  three.name = "three";
  const Outcome refused = Stretto(Submit(three, {}));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("project \"speech\" has 1 job that waits"));
  EXPECT_THAT(Metrics(metrics_port_), HasSubstr("stretto_project_slots{project=\"speech\"} 2"));
  RunJob({.name = "other", .steps = 1});
  EXPECT_EQ(Stretto({"job", "cancel", "one"}).code, 0);
  AwaitState("two", "succeeded");
}

TEST_F(QueueTest, ExampleRuns) {
  StartCluster();
  RunExample("queue");
}

}  // namespace
}  // namespace stretto::integration

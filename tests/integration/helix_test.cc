// SPDX-License-Identifier: Apache-2.0

// Jobs that weave forward of a micro-batch with backward of the one before.

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// For two layers and two slices.
constexpr char kPlan[] =
    "weave f0|b0 pace=2\n"
    "  f embed\n"
    "  b d.loss d.head w.head\n"
    "  f ln1 qkv attention proj L0\n"
    "  b d.fc2 d.act d.fc1 L1 s1\n"
    "  b d.fc2 d.act d.fc1 L1 s0\n";

class HelixTest : public ClusterTest {
 protected:
  // Four micro-batches in two slices.
  static JobFile Woven(const std::string& name, int steps, const std::string& more = "") {
    return {.name = name,
            .steps = steps,
            .schedule = "{name: helix, parameters: {slices: 2}}",
            .more = absl::StrCat("global_batch_size: 16\noptimizer: {decay_steps: 8}\n", more)};
  }
  static JobFile Planned(const std::string& name, int steps, const std::string& plan,
                         const std::string& more = "") {
    JobFile job = Woven(name, steps, more);
    job.schedule = absl::StrCat("\n  name: helix\n  parameters: {slices: 2}\n  plan: |\n",
                                Indented(plan, "    "));
    return job;
  }
  static std::string Indented(const std::string& text, const std::string& indent) {
    std::string lines = indent;
    for (const char c : text) lines += c == '\n' ? "\n" + indent : std::string(1, c);
    return lines;
  }
};

// A rank is killed; the same slices continue as domino_row, without a plan, and helix after them
// with one.
TEST_F(HelixTest, AJobThatLostARankContinuesUnderOtherSchedulesBitByBit) {
  StartCluster();
  RunJob(Woven("whole", 8));
  LoseARank(Planned("lost", 8, kPlan), 1);
  JobFile domino = Woven("domino", 6, "checkpoint: {resume_from: lost/step-00000004}\n");
  domino.schedule = "{name: domino_row, parameters: {slices: 2}}";
  RunJob(domino);
  RunJob(Planned("rest", 8, kPlan, "checkpoint: {resume_from: domino}\n"));
  const std::vector<double> whole = Losses("whole");
  std::vector<double> resumed = Losses("domino");
  for (double loss : Losses("rest")) resumed.push_back(loss);
  ASSERT_EQ(whole.size(), 8u);
  EXPECT_EQ(resumed, std::vector<double>(whole.begin() + 4, whole.end()));
}

TEST_F(HelixTest, APlanIsStoredWithTheJobAndOrdersTheProgramsOfAllRanks) {
  StartCluster();
  const Json dry = Stretto(Submit(Planned("dry", 2, kPlan), {"--dry-run", "-o", "json"})).json();
  EXPECT_EQ(dry["plan"]["ranks"].size(), 1) << dry;
  RunJob(Woven("plain", 2));
  const Json job = RunJob(Planned("planned", 2, kPlan));
  EXPECT_EQ(job["spec"]["schedule"]["plan"], kPlan);
  EXPECT_THAT(Stretto({"job", "describe", "planned"}).out,
              HasSubstr("helix, slices of 2 + 2, a plan of 6 lines, tp 2"));
  EXPECT_THAT(Stretto({"job", "get", "planned", "-o", "yaml"}).out,
              HasSubstr("    plan: |\n      weave f0|b0 pace=2\n        f embed\n"));
  EXPECT_EQ(Losses("planned"), Losses("plain"));
  for (int rank : {0, 1}) {
    EXPECT_NE(ReadRun("planned", rank, "program.txt"), ReadRun("plain", rank, "program.txt"));
  }
}

TEST_F(HelixTest, AFaultyPlanIsRefusedWithThePlaceInTheFileAndTheLineOfThePlan) {
  StartCoordinator();
  const auto refusal = [&](const std::string& plan) {
    const Outcome outcome = Stretto(Submit(Planned("faulty", 2, plan), {}));
    EXPECT_EQ(outcome.code, 1) << outcome.out;
    return outcome.err;
  };
  EXPECT_THAT(refusal("weave f0|b0 pace=1\n  f ln1 L1\n  f fc3 L0\n"),
              HasSubstr("faulty.yaml:8:9: spec.schedule.plan: found 'fc3' in line 3 of the plan, "
                        "expected one of ln1, "));
  EXPECT_THAT(refusal("weave f0|b0 pace=1\n  f ln1 L2\n"),
              HasSubstr("found layer 2 in line 2 of the plan, expected 0 to 1"));
  EXPECT_THAT(Stretto({"job", "list"}).out, Not(HasSubstr("faulty")));
}

TEST_F(HelixTest, TheExamplesRunAsTheyStand) {
  StartCluster();
  for (const char* example : {"helix", "helix-plan"}) {
    RunExample(example);
    EXPECT_EQ(NumbersOf(Steps(example)), Range(1, 20));
  }
  EXPECT_EQ(Losses("helix"), Losses("helix-plan"));
}

}  // namespace
}  // namespace stretto::integration

// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/same_step.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/worker/engine/program/programs.h"
#include "tests/worker/trainer/agreement/ranks.h"

namespace stretto::trainer {
namespace {

using testing::HasSubstr;

// By rank. The programs' first line names the rank.
std::vector<absl::Status> CheckSteps(const std::vector<std::string>& programs,
                                     const std::vector<std::vector<GroupId>>& issued = {{}, {}}) {
  return OnRanks(programs.size(), [&](size_t rank, Communicator& control) {
    return CheckSameStep(ProgramOf(programs[rank]), issued[rank], control);
  });
}

TEST(SameStepTest, ProgramsThatFitPass) {
  for (const absl::Status& status : CheckSteps({kLinear, With(kLinear, "rank=0", "rank=1")})) {
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(SameStepTest, EveryRankIsToldWhereProgramsDiffer) {
  const std::string other =
      With(With(kLinear, "rank=0", "rank=1"), "all_reduce L0.fc fwd", "all_reduce L0.fc bwd");
  for (const absl::Status& status : CheckSteps({kLinear, other})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the programs of the ranks do not fit together: group tp, call 0: found "
                          "rank 0 at operation 1 and rank 1 at operation 1, which differ"));
  }
}

TEST(SameStepTest, EveryRankIsToldOfADeadlock) {
  const std::string other =
      With(With(With(kLinear, "rank=0", "rank=1"),
                "1 comm.tp all_reduce L0.fc fwd mb0 s0 in=%2 out=%2 on=tp wait=0\n", ""),
           "2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3 wait=1",
           "1 compute gelu L0.act fwd in=%2 out=%3");
  for (const absl::Status& status : CheckSteps({kLinear, other})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("deadlock: nothing can proceed, with rank 0 at operation 1 of group tp"));
  }
}

TEST(SameStepTest, EveryRankIsToldOfAnOrderOfIssueThatDeadlocks) {
  const std::string program =
      "program rank=0 world=2\n"
      "group tp 0,1\n"
      "group dp 0,1\n"
      "lane compute\n"
      "lane comm.tp\n"
      "lane comm.dp\n"
      "buffer %0 x f32 4 input\n"
      "buffer %1 y f32 4 input\n"
      "0 comm.tp all_reduce a fwd in=%0 out=%0 on=tp\n"
      "1 comm.dp all_reduce b fwd in=%1 out=%1 on=dp wait=0\n";
  const std::string other = With(program, "rank=0", "rank=1");
  for (const absl::Status& status : CheckSteps({program, other}, {{0, 1}, {0, 1}})) {
    EXPECT_TRUE(status.ok()) << status;
  }
  for (const absl::Status& status : CheckSteps({program, other}, {{0, 1}, {1, 0}})) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1 at operation 0 of group tp, enqueued behind operation 1"));
  }
}

}  // namespace
}  // namespace stretto::trainer

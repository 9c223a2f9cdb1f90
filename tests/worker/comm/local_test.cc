// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/local/local.h"

#include "gmock/gmock.h"
#include "tests/worker/comm/groups.h"
#include "tests/worker/comm/tensors.h"

namespace stretto::testing {
namespace {

TEST(LocalTest, DifferentCallsAreRefusedOnAllRanksAndTheGroupGoesOn) {
  const Ranks ranks = Local(2);
  OnEveryRank(ranks, [](Communicator& comm) {
    Tensor tensor = Patterned(DType::kF32, comm.rank(), 4 + comm.rank());

    const absl::Status status = comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum));

    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()),
              "local group of 2: rank 1 calls all_reduce(5 f32), expected all_reduce(4 f32) as "
              "rank 0");
    EXPECT_TRUE(comm.Run(Collective::Barrier()).ok());
  });
}

TEST(LocalTest, AbortNamesTheRankThatAborted) {
  const Ranks ranks = Local(3);
  ranks[2]->Abort();

  const absl::Status status =
      ranks[0]->Run(Collective::Broadcast(Tensor(DType::kI32, 2).view(), 1));

  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(std::string(status.message()),
            "broadcast(2 i32, root 1) on rank 0 of 3 (local): aborted by rank 2");
}

TEST(LocalTest, LeavingIsNamed) {
  Ranks ranks = Local(2);
  ranks[1].reset();

  const absl::Status status = ranks[0]->Run(Collective::Barrier());

  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(status.message()),
            "barrier on rank 0 of 2 (local): peer rank 1 left the group");
}

}  // namespace
}  // namespace stretto::testing

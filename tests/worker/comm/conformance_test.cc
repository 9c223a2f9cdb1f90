// SPDX-License-Identifier: Apache-2.0

// What every Communicator must do, whatever carries it.

#include <algorithm>
#include <tuple>

#include "gmock/gmock.h"
#include "tests/worker/comm/groups.h"
#include "tests/worker/comm/tensors.h"

namespace stretto::testing {
namespace {

using ::testing::HasSubstr;

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kI32};
constexpr int64_t kCounts[] = {0, 1, 3, 4097, 9001};

class CommunicatorTest : public ::testing::TestWithParam<std::tuple<Kind, int>> {
 protected:
  Ranks Create() const { return std::get<0>(GetParam()).create(size()); }
  int size() const { return std::get<1>(GetParam()); }

  // body(communicator, dtype, count) for every dtype and count.
  void OnEveryShape(const std::function<void(Communicator&, DType, int64_t)>& body) {
    const Ranks ranks = Create();
    OnEveryRank(ranks, [&](Communicator& comm) {
      for (DType dtype : kDTypes) {
        for (int64_t count : kCounts) {
          SCOPED_TRACE(::testing::Message()
                       << NameOf(dtype) << " x " << count << " on rank " << comm.rank());
          body(comm, dtype, count);
        }
      }
    });
  }

  float SumOf(int64_t index) const {
    float sum = 0;
    for (int rank = 0; rank < size(); ++rank) sum += Pattern(rank, index);
    return sum;
  }
  float MaxOf(int64_t index) const {
    float max = Pattern(0, index);
    for (int rank = 1; rank < size(); ++rank) max = std::max(max, Pattern(rank, index));
    return max;
  }
};

TEST_P(CommunicatorTest, RanksAreNumberedInOrder) {
  const Ranks ranks = Create();
  for (int rank = 0; rank < size(); ++rank) {
    EXPECT_EQ(ranks[static_cast<size_t>(rank)]->rank(), rank);
    EXPECT_EQ(ranks[static_cast<size_t>(rank)]->size(), size());
  }
}

TEST_P(CommunicatorTest, AllReduceSums) {
  OnEveryShape([&](Communicator& comm, DType dtype, int64_t count) {
    Tensor tensor = Patterned(dtype, comm.rank(), count);
    ASSERT_TRUE(comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum)).ok());
    ExpectElements(tensor, 0, count, [&](int64_t i) { return SumOf(i); });
  });
}

TEST_P(CommunicatorTest, AllReduceTakesTheMaximum) {
  OnEveryShape([&](Communicator& comm, DType dtype, int64_t count) {
    Tensor tensor = Patterned(dtype, comm.rank(), count);
    ASSERT_TRUE(comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kMax)).ok());
    ExpectElements(tensor, 0, count, [&](int64_t i) { return MaxOf(i); });
  });
}

TEST_P(CommunicatorTest, AllGatherConcatenatesInRankOrder) {
  OnEveryShape([&](Communicator& comm, DType dtype, int64_t count) {
    Tensor in = Patterned(dtype, comm.rank(), count);
    Tensor out(dtype, count * size());
    ASSERT_TRUE(comm.Run(Collective::AllGather(in.view(), out.view())).ok());
    for (int rank = 0; rank < size(); ++rank) {
      ExpectElements(out, rank * count, count, [&](int64_t i) { return Pattern(rank, i); });
    }
  });
}

TEST_P(CommunicatorTest, AllGatherWorksInPlace) {
  OnEveryShape([&](Communicator& comm, DType dtype, int64_t count) {
    Tensor out(dtype, count * size());
    const int64_t mine = comm.rank() * count;
    for (int64_t i = 0; i < count; ++i) out.Set(mine + i, Pattern(comm.rank(), i));
    ASSERT_TRUE(comm.Run(Collective::AllGather(out.Part(mine, count), out.view())).ok());
    for (int rank = 0; rank < size(); ++rank) {
      ExpectElements(out, rank * count, count, [&](int64_t i) { return Pattern(rank, i); });
    }
  });
}

TEST_P(CommunicatorTest, ReduceScatterGivesEachRankItsPartOfTheSum) {
  OnEveryShape([&](Communicator& comm, DType dtype, int64_t count) {
    Tensor in = Patterned(dtype, comm.rank(), count * size());
    Tensor out(dtype, count);
    ASSERT_TRUE(comm.Run(Collective::ReduceScatter(in.view(), out.view())).ok());
    ExpectElements(out, 0, count, [&](int64_t i) { return SumOf(comm.rank() * count + i); });
  });
}

TEST_P(CommunicatorTest, ReduceScatterWorksInPlace) {
  OnEveryShape([&](Communicator& comm, DType dtype, int64_t count) {
    Tensor in = Patterned(dtype, comm.rank(), count * size());
    const int64_t mine = comm.rank() * count;
    ASSERT_TRUE(comm.Run(Collective::ReduceScatter(in.view(), in.Part(mine, count))).ok());
    ExpectElements(in, mine, count, [&](int64_t i) { return SumOf(mine + i); });
  });
}

TEST_P(CommunicatorTest, ReduceScatterTakesTheMaximum) {
  OnEveryShape([&](Communicator& comm, DType dtype, int64_t count) {
    Tensor in = Patterned(dtype, comm.rank(), count * size());
    Tensor out(dtype, count);
    Collective scatter = Collective::ReduceScatter(in.view(), out.view());
    scatter.op = ReduceOp::kMax;
    ASSERT_TRUE(comm.Run(scatter).ok());
    ExpectElements(out, 0, count, [&](int64_t i) { return MaxOf(comm.rank() * count + i); });
  });
}

// Longer than any scratch memory, in pieces of unequal sizes.
TEST_P(CommunicatorTest, LongReductionsAreWhole) {
  const Ranks ranks = Create();
  OnEveryRank(ranks, [&](Communicator& comm) {
    const int64_t count = (int64_t{1} << 20) * comm.size() + 3;
    Tensor tensor = Patterned(DType::kF32, comm.rank(), count);
    ASSERT_TRUE(comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum)).ok());
    ExpectElements(tensor, 0, count, [&](int64_t i) { return SumOf(i); });
    const int64_t part = 700'001, mine = comm.rank() * part;
    Tensor parts = Patterned(DType::kF32, comm.rank(), part * comm.size());
    ASSERT_TRUE(comm.Run(Collective::ReduceScatter(parts.view(), parts.Part(mine, part))).ok());
    ExpectElements(parts, mine, part, [&](int64_t i) { return SumOf(mine + i); });
    Tensor bits = Patterned(DType::kBF16, comm.rank(), count);
    ASSERT_TRUE(comm.Run(Collective::AllReduce(bits.view(), ReduceOp::kMax)).ok());
    ExpectElements(bits, 0, count, [&](int64_t i) { return MaxOf(i); });
  });
}

// Results do not depend on whether a call announces the next one, nor on whether peers do. Each
// call is the first one once, and pieces of a call arrive while the call before it still runs.
TEST_P(CommunicatorTest, AnnouncedCallsAreTheSame) {
  const Ranks ranks = Create();
  OnEveryRank(ranks, [&](Communicator& comm) {
    const int64_t count = (int64_t{1} << 20) * comm.size() + 3, part = 300'001;
    const int64_t mine = comm.rank() * part;
    for (int first = 0; first < 8; ++first) {
      Tensor sum = Patterned(DType::kF32, comm.rank(), count);
      Tensor small = Patterned(DType::kBF16, comm.rank(), 5);
      Tensor parts = Patterned(DType::kF32, comm.rank(), part * comm.size());
      Tensor chain = Patterned(DType::kI32, comm.rank(), 9001);
      Tensor gathered(DType::kF32, 4097 * comm.size());
      Tensor own = Patterned(DType::kF32, comm.rank(), 4097), none(DType::kF32, 0);
      std::vector<Collective> calls = {
          Collective::AllReduce(sum.view(), ReduceOp::kSum),
          Collective::ReduceScatter(parts.view(), parts.Part(mine, part)),
          Collective::AllReduce(small.view(), ReduceOp::kMax),
          Collective::AllGather(own.view(), gathered.view()),
          Collective::Broadcast(chain.view(), 0),
          Collective::AllReduce(none.view(), ReduceOp::kSum),
          Collective::ReduceScatter(none.view(), none.view()),
          Collective::Barrier(),
      };
      std::rotate(calls.begin(), calls.begin() + first, calls.end());
      for (size_t i = 0; i < calls.size(); ++i) {
        Collective next = calls[(i + 1) % calls.size()];
        next.in.data = next.out.data = nullptr;
        const bool last = i + 1 == calls.size();
        const bool announces =
            !last && (first % 2 == 0 || (static_cast<int>(i) + comm.rank()) % 2 == 0);
        ASSERT_TRUE(comm.RunTelling(calls[i], announces ? &next : nullptr, [] {}).ok());
      }
      ExpectElements(sum, 0, count, [&](int64_t i) { return SumOf(i); });
      ExpectElements(small, 0, 5, [&](int64_t i) { return MaxOf(i); });
      ExpectElements(parts, mine, part, [&](int64_t i) { return SumOf(mine + i); });
      ExpectElements(chain, 0, 9001, [&](int64_t i) { return Pattern(0, i); });
      for (int rank = 0; rank < comm.size(); ++rank) {
        ExpectElements(gathered, rank * 4097, 4097, [&](int64_t i) { return Pattern(rank, i); });
      }
    }
  });
}

TEST_P(CommunicatorTest, BroadcastCopiesFromEveryRoot) {
  OnEveryShape([&](Communicator& comm, DType dtype, int64_t count) {
    for (int root = 0; root < size(); ++root) {
      Tensor tensor = Patterned(dtype, comm.rank(), count);
      ASSERT_TRUE(comm.Run(Collective::Broadcast(tensor.view(), root)).ok());
      ExpectElements(tensor, 0, count, [&](int64_t i) { return Pattern(root, i); });
    }
  });
}

// In chunks of unequal sizes, which follow each other along a chain of ranks.
TEST_P(CommunicatorTest, LongBroadcastsArriveWhole) {
  const Ranks ranks = Create();
  OnEveryRank(ranks, [&](Communicator& comm) {
    for (int64_t count : {kChainChunkBytes / 4, 3 * kChainChunkBytes / 4 + 1, int64_t{500'009}}) {
      const int root = comm.size() - 1;
      Tensor tensor = Patterned(DType::kF32, comm.rank(), count);
      ASSERT_TRUE(comm.Run(Collective::Broadcast(tensor.view(), root)).ok());
      ExpectElements(tensor, 0, count, [&](int64_t i) { return Pattern(root, i); });
      Tensor sum(DType::kI32, 1);
      sum.Set(0, 1);
      ASSERT_TRUE(comm.Run(Collective::AllReduce(sum.view(), ReduceOp::kSum)).ok());
      ASSERT_EQ(sum.Get(0), comm.size());
    }
  });
}

TEST_P(CommunicatorTest, BarrierWaitsForEveryRank) {
  const Ranks ranks = Create();
  std::atomic<int> arrived{0};
  OnEveryRank(ranks, [&](Communicator& comm) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      ASSERT_TRUE(comm.Run(Collective::Barrier()).ok());
      EXPECT_GE(arrived.load(), round * comm.size());
    }
  });
}

TEST_P(CommunicatorTest, ManyCallsBackToBackKeepTheirOrder) {
  const Ranks ranks = Create();
  OnEveryRank(ranks, [&](Communicator& comm) {
    for (int round = 0; round < 200; ++round) {
      const int64_t count = 1 + round % 17;
      Tensor sum(DType::kI32, count);
      for (int64_t i = 0; i < count; ++i) sum.Set(i, static_cast<float>(round));
      Tensor root(DType::kF32, 1);
      root.Set(0, static_cast<float>(1000 * comm.rank() + round));
      ASSERT_TRUE(comm.Run(Collective::AllReduce(sum.view(), ReduceOp::kSum)).ok());
      ASSERT_TRUE(comm.Run(Collective::Broadcast(root.view(), round % comm.size())).ok());
      ASSERT_EQ(sum.Get(count - 1), round * comm.size());
      ASSERT_EQ(root.Get(0), 1000 * (round % comm.size()) + round);
    }
  });
}

TEST_P(CommunicatorTest, WrongArgumentsAreNamedAndLeaveTheGroupWorking) {
  const Ranks ranks = Create();
  OnEveryRank(ranks, [&](Communicator& comm) {
    Tensor three(DType::kF32, 3), eight(DType::kF32, 8 * size()), other(DType::kI32, 3 * size());

    const absl::Status gather = comm.Run(Collective::AllGather(three.view(), eight.view()));
    const absl::Status scatter = comm.Run(Collective::ReduceScatter(other.view(), three.view()));
    const absl::Status broadcast = comm.Run(Collective::Broadcast(three.view(), size()));

    EXPECT_EQ(gather.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(gather.message()),
                HasSubstr(absl::StrCat("all_gather: out has ", 8 * size(), " elements, expected ",
                                       size(), " times the 3 of in")));
    EXPECT_EQ(scatter.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(scatter.message()),
                HasSubstr("reduce_scatter: in is i32, expected f32 as out"));
    EXPECT_EQ(broadcast.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(broadcast.message()),
        HasSubstr(absl::StrCat("broadcast: root is ", size(), ", expected 0 to ", size() - 1)));
    EXPECT_TRUE(comm.Run(Collective::Barrier()).ok());
  });
}

TEST_P(CommunicatorTest, AbortEndsABlockedCallAndAllLaterOnes) {
  const Ranks ranks = Create();
  Communicator& comm = *ranks[0];
  Tensor tensor = Patterned(DType::kF32, 0, 4097);
  if (size() > 1) {
    // The peers never call.
    absl::Status blocked;
    BlockedCall caller(
        [&] { blocked = comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum)); });
    comm.Abort();
    caller.join();
    EXPECT_EQ(blocked.code(), absl::StatusCode::kAborted) << blocked;
  } else {
    comm.Abort();
  }

  const absl::Status later = comm.Run(Collective::Barrier());

  EXPECT_EQ(later.code(), absl::StatusCode::kAborted) << later;
  EXPECT_THAT(std::string(later.message()), HasSubstr("barrier"));
  EXPECT_THAT(std::string(later.message()), HasSubstr(absl::StrCat("rank 0 of ", size())));
}

// What a group of one cannot show.
class PeersTest : public CommunicatorTest {};

TEST_P(PeersTest, AbortOfOneRankFailsItsPeers) {
  const Ranks ranks = Create();
  OnEveryRank(ranks, [&](Communicator& comm) {
    if (comm.rank() == 0) return comm.Abort();
    const absl::Status status = comm.Run(Collective::Barrier());
    EXPECT_TRUE(absl::IsAborted(status) || absl::IsUnavailable(status)) << status;
  });
}

TEST_P(PeersTest, PeerThatLeavesMakesItsPeersUnavailable) {
  Ranks ranks = Create();
  OnEveryRank(ranks, [&](Communicator& comm) {
    Tensor tensor = Patterned(DType::kF32, comm.rank(), 9001);
    ASSERT_TRUE(comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum)).ok());
  });
  const Ranks rest = [&] {
    ranks.back().reset();
    ranks.pop_back();
    return std::move(ranks);
  }();

  OnEveryRank(rest, [&](Communicator& comm) {
    for (int64_t count : {int64_t{3} << 20, int64_t{9001}}) {  // the first in several pieces
      Tensor tensor = Patterned(DType::kF32, comm.rank(), count);
      const absl::Status status = comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum));
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("on rank ", comm.rank(), " of ", size())));
      if (size() == 2) {
        EXPECT_THAT(std::string(status.message()), HasSubstr("peer rank 1"));
      }
    }
  });
}

TEST_P(CommunicatorTest, RankMayLeaveRightAfterItsLastCall) {
  for (int round = 0; round < 5; ++round) {
    Ranks ranks = Create();
    OnEveryRank(size(), [&](int rank) {
      std::unique_ptr<Communicator> comm = std::move(ranks[static_cast<size_t>(rank)]);
      Tensor tensor = Patterned(DType::kF32, rank, 9001);
      EXPECT_TRUE(comm->Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum)).ok());
      EXPECT_TRUE(comm->Run(Collective::Barrier()).ok());
    });
  }
}

std::string NameOfGroup(const ::testing::TestParamInfo<std::tuple<Kind, int>>& info) {
  return absl::StrCat(std::get<0>(info.param).name, "_", std::get<1>(info.param), "_ranks");
}

INSTANTIATE_TEST_SUITE_P(All, CommunicatorTest,
                         ::testing::Combine(::testing::ValuesIn(AllKinds()),
                                            ::testing::Values(1, 2, 3, 4)),
                         NameOfGroup);
INSTANTIATE_TEST_SUITE_P(All, PeersTest,
                         ::testing::Combine(::testing::ValuesIn(AllKinds()),
                                            ::testing::Values(2, 3, 4)),
                         NameOfGroup);

}  // namespace
}  // namespace stretto::testing

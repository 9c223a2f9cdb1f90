// SPDX-License-Identifier: Apache-2.0

// What every DeviceCommunicator must do, whatever carries it.

#include <algorithm>
#include <tuple>

#include "gmock/gmock.h"
#include "tests/worker/comm/device/device_groups.h"
#include "tests/worker/comm/tensors.h"

namespace stretto::testing {
namespace {

using ::testing::HasSubstr;

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kI32};
constexpr int64_t kCounts[] = {0, 1, 3, 4097};

class DeviceCommunicatorTest : public ::testing::TestWithParam<std::tuple<DeviceKind, int>> {
 protected:
  void SetUp() override {
    fake_nccl::Reset();
    ranks_ = kind().create(size());
  }
  const DeviceKind& kind() const { return std::get<0>(GetParam()); }
  int size() const { return std::get<1>(GetParam()); }
  DeviceCommunicator& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

  absl::Status Await(int r) {
    WaitingClock waiting;
    DeviceCommunicator* communicator = &rank(r);
    return AwaitDevice({&communicator, 1}, [&] { return kind().idle(StreamOf(r)); },
                       {.polling = waiting.polling()});
  }

  // For every dtype and count: make(rank, dtype, count) of every rank, call(rank, tensor) on every
  // rank, then check(rank, tensor).
  template <class Make, class Call, class Check>
  void OnEveryShape(Make make, Call call, Check check) {
    for (DType dtype : kDTypes) {
      for (int64_t count : kCounts) {
        SCOPED_TRACE(::testing::Message() << NameOf(dtype) << " x " << count);
        std::vector<Tensor> tensors;
        for (int r = 0; r < size(); ++r) tensors.push_back(make(r, dtype, count));
        for (int r = 0; r < size(); ++r) {
          const absl::Status status = call(rank(r), tensors[static_cast<size_t>(r)], count);
          ASSERT_TRUE(status.ok()) << status;
        }
        for (int r = 0; r < size(); ++r) {
          SCOPED_TRACE(::testing::Message() << "rank " << r);
          ASSERT_TRUE(Await(r).ok());
          check(r, tensors[static_cast<size_t>(r)], count);
        }
      }
    }
  }

  float SumOf(int64_t index) const {
    float sum = 0;
    for (int r = 0; r < size(); ++r) sum += Pattern(r, index);
    return sum;
  }

  DeviceRanks ranks_;
};

Tensor PatternedOf(int rank, DType dtype, int64_t count) { return Patterned(dtype, rank, count); }

TEST_P(DeviceCommunicatorTest, RanksAreNumberedInOrder) {
  for (int r = 0; r < size(); ++r) {
    EXPECT_EQ(rank(r).rank(), r);
    EXPECT_EQ(rank(r).size(), size());
  }
}

TEST_P(DeviceCommunicatorTest, AllReduceSums) {
  OnEveryShape(
      PatternedOf,
      [](DeviceCommunicator& comm, Tensor& tensor, int64_t) {
        return comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum),
                        StreamOf(comm.rank()));
      },
      [&](int, const Tensor& tensor, int64_t count) {
        ExpectElements(tensor, 0, count, [&](int64_t i) { return SumOf(i); });
      });
}

TEST_P(DeviceCommunicatorTest, AllReduceTakesTheMaximum) {
  OnEveryShape(
      PatternedOf,
      [](DeviceCommunicator& comm, Tensor& tensor, int64_t) {
        return comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kMax),
                        StreamOf(comm.rank()));
      },
      [&](int, const Tensor& tensor, int64_t count) {
        ExpectElements(tensor, 0, count, [&](int64_t i) {
          float max = Pattern(0, i);
          for (int r = 1; r < size(); ++r) max = std::max(max, Pattern(r, i));
          return max;
        });
      });
}

// A tensor of size() parts; all but this rank's own hold nothing yet.
TEST_P(DeviceCommunicatorTest, AllGatherConcatenatesInRankOrderInPlace) {
  OnEveryShape(
      [&](int r, DType dtype, int64_t count) {
        Tensor out(dtype, count * size());
        for (int64_t i = 0; i < count; ++i) out.Set(r * count + i, Pattern(r, i));
        return out;
      },
      [](DeviceCommunicator& comm, Tensor& out, int64_t count) {
        return comm.Run(Collective::AllGather(out.Part(comm.rank() * count, count), out.view()),
                        StreamOf(comm.rank()));
      },
      [&](int, const Tensor& out, int64_t count) {
        for (int r = 0; r < size(); ++r) {
          ExpectElements(out, r * count, count, [&](int64_t i) { return Pattern(r, i); });
        }
      });
}

TEST_P(DeviceCommunicatorTest, ReduceScatterGivesEachRankItsPartOfTheSumInPlace) {
  OnEveryShape(
      [&](int r, DType dtype, int64_t count) { return Patterned(dtype, r, count * size()); },
      [](DeviceCommunicator& comm, Tensor& in, int64_t count) {
        return comm.Run(Collective::ReduceScatter(in.view(), in.Part(comm.rank() * count, count)),
                        StreamOf(comm.rank()));
      },
      [&](int r, const Tensor& in, int64_t count) {
        ExpectElements(in, r * count, count, [&](int64_t i) { return SumOf(r * count + i); });
      });
}

TEST_P(DeviceCommunicatorTest, BroadcastGivesAllRanksWhatAnyRootHas) {
  for (int root = 0; root < size(); ++root) {
    SCOPED_TRACE(::testing::Message() << "root " << root);
    OnEveryShape(
        PatternedOf,
        [&](DeviceCommunicator& comm, Tensor& tensor, int64_t) {
          return comm.Run(Collective::Broadcast(tensor.view(), root), StreamOf(comm.rank()));
        },
        [&](int, const Tensor& tensor, int64_t count) {
          ExpectElements(tensor, 0, count, [&](int64_t i) { return Pattern(root, i); });
        });
  }
}

TEST_P(DeviceCommunicatorTest, RegisteredMemoryGivesTheSameNumbers) {
  OnEveryShape(
      PatternedOf,
      [](DeviceCommunicator& comm, Tensor& tensor, int64_t) {
        const std::shared_ptr<void> memory(tensor.view().data, [](void*) {});
        const absl::Status status = comm.Register(memory, tensor.view().bytes());
        if (!status.ok()) return status;
        return comm.Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum),
                        StreamOf(comm.rank()));
      },
      [&](int r, const Tensor& tensor, int64_t count) {
        ExpectElements(tensor, 0, count, [&](int64_t i) { return SumOf(i); });
        rank(r).Unregister(tensor.bytes().data());
      });
}

TEST_P(DeviceCommunicatorTest, ManyCallsMayBeInFlight) {
  constexpr int kCalls = 20;
  std::vector<std::vector<Tensor>> tensors(static_cast<size_t>(size()));
  for (int r = 0; r < size(); ++r) {
    for (int call = 0; call < kCalls; ++call) {
      Tensor& tensor =
          tensors[static_cast<size_t>(r)].emplace_back(Patterned(DType::kF32, r + call, 5));
      ASSERT_TRUE(
          rank(r).Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum), StreamOf(r)).ok());
    }
    EXPECT_EQ(kind().idle(StreamOf(0)), r == size() - 1) << "after rank " << r;
  }

  for (int r = 0; r < size(); ++r) {
    ASSERT_TRUE(Await(r).ok());
    for (int call = 0; call < kCalls; ++call) {
      float sum = 0;
      for (int peer = 0; peer < size(); ++peer) sum += Pattern(peer + call, 4);
      EXPECT_EQ(tensors[static_cast<size_t>(r)][static_cast<size_t>(call)].Get(4), sum);
    }
  }
}

TEST_P(DeviceCommunicatorTest, WrongArgumentsAreNamedAndLeaveTheGroupWorking) {
  Tensor three(DType::kF32, 3), eight(DType::kF32, 8 * size()), other(DType::kI32, 3 * size());
  for (int r = 0; r < size(); ++r) {
    const absl::Status gather =
        rank(r).Run(Collective::AllGather(three.view(), eight.view()), StreamOf(r));
    const absl::Status scatter =
        rank(r).Run(Collective::ReduceScatter(other.view(), three.view()), StreamOf(r));

    EXPECT_EQ(gather.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(gather.message()),
                HasSubstr(absl::StrCat("all_gather: out has ", 8 * size(), " elements, expected ",
                                       size(), " times the 3 of in")));
    EXPECT_EQ(scatter.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(scatter.message()),
                HasSubstr("reduce_scatter: in is i32, expected f32 as out"));
    EXPECT_TRUE(rank(r).Poll().ok());
  }
}

TEST_P(DeviceCommunicatorTest, KindsOfTheHostAreRefusedAndLeaveTheGroupWorking) {
  for (int r = 0; r < size(); ++r) {
    const absl::Status status = rank(r).Run(Collective::Barrier(), StreamOf(r));

    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("barrier"));
    EXPECT_TRUE(rank(r).Poll().ok());
  }
}

TEST_P(DeviceCommunicatorTest, AbortEndsTheNextPollAndAllLaterCalls) {
  rank(0).Abort();
  rank(0).Abort();
  Tensor tensor = Patterned(DType::kF32, 0, 3);

  const absl::Status poll = rank(0).Poll();
  const absl::Status call =
      rank(0).Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum), StreamOf(0));

  EXPECT_EQ(poll.code(), absl::StatusCode::kAborted) << poll;
  EXPECT_EQ(call.code(), absl::StatusCode::kAborted) << call;
  EXPECT_THAT(std::string(call.message()), HasSubstr(absl::StrCat("rank 0 of ", size())));
}

std::vector<std::tuple<DeviceKind, int>> GroupsOf(std::vector<int> sizes) {
  std::vector<std::tuple<DeviceKind, int>> groups;
  for (const DeviceKind& kind : AllDeviceKinds()) {
    for (int size : sizes) groups.emplace_back(kind, size);
  }
  return groups;
}

// What a group of one cannot show.
class DevicePeersTest : public DeviceCommunicatorTest {};

TEST_P(DevicePeersTest, WaitForASilentPeerEndsAtTheDeadlineAndClearsTheStream) {
  Tensor tensor = Patterned(DType::kF32, 0, 3);
  ASSERT_TRUE(rank(0).Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum), StreamOf(0)).ok());
  ASSERT_FALSE(kind().idle(StreamOf(0)));

  const absl::Status status = Await(0);

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_TRUE(kind().idle(StreamOf(0)));
  EXPECT_EQ(rank(0).Poll().code(), absl::StatusCode::kAborted);
}

TEST_P(DevicePeersTest, AbortDuringAWaitEndsIt) {
  Tensor tensor = Patterned(DType::kF32, 0, 3);
  ASSERT_TRUE(rank(0).Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum), StreamOf(0)).ok());
  DeviceCommunicator* communicator = &rank(0);
  FakeClock clock;

  const absl::Status status =
      AwaitDevice({&communicator, 1}, [&] { return kind().idle(StreamOf(0)); },
                  {.polling = {.clock = &clock, .pause = [&] { communicator->Abort(); }}});

  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(kind().idle(StreamOf(0)));
}

TEST_P(DevicePeersTest, PeerThatLeavesEndsTheWaitOfTheOthersWithinThePoll) {
  Tensor tensor = Patterned(DType::kF32, 0, 3);
  ASSERT_TRUE(rank(0).Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum), StreamOf(0)).ok());
  ranks_.back().reset();

  const absl::Status status = Await(0);
  const absl::Status later =
      rank(0).Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum), StreamOf(0));

  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("rank 0 of ", size())));
  EXPECT_EQ(later, status);
  EXPECT_TRUE(kind().idle(StreamOf(0)));
}

std::string NameOfGroup(const ::testing::TestParamInfo<std::tuple<DeviceKind, int>>& info) {
  return absl::StrCat(std::get<0>(info.param).name, "_", std::get<1>(info.param), "_ranks");
}

INSTANTIATE_TEST_SUITE_P(All, DeviceCommunicatorTest, ::testing::ValuesIn(GroupsOf({1, 2, 3, 4})),
                         NameOfGroup);
INSTANTIATE_TEST_SUITE_P(All, DevicePeersTest, ::testing::ValuesIn(GroupsOf({2, 3})), NameOfGroup);

}  // namespace
}  // namespace stretto::testing

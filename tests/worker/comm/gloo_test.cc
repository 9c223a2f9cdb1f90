// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "proto/base/clock.h"
#include "tests/worker/comm/dial.h"
#include "tests/worker/comm/groups.h"
#include "tests/worker/comm/tensors.h"
#include "worker/comm/gloo/mesh.h"
#include "worker/comm/gloo/posts.h"

namespace stretto::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kShort = absl::Milliseconds(300);

GlooNetwork Network() { return *OpenGlooNetwork("127.0.0.1"); }

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// Also where a call may take longer than the meeting.
TEST(GlooTest, MissingRankIsNamedAtTheTimeout) {
  for (const auto& [timeout, meeting] :
       {std::pair(kShort, absl::InfiniteDuration()), std::pair(absl::Hours(1), kShort)}) {
    MemoryStore store;
    const absl::Status status = GlooCommunicator::Connect({.rank = 0,
                                                           .size = 2,
                                                           .store = &store,
                                                           .prefix = "job-1/tp",
                                                           .network = Network(),
                                                           .timeout = timeout,
                                                           .meeting = meeting})
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(MessageOf(status),
              "rank 0 of 2 (gloo group 'job-1/tp'): rank 1 did not appear within 300ms (store key "
              "'job-1/tp/1')");
  }
}

TEST(GlooTest, RankOfAGroupOfAnotherSizeIsRefused) {
  MemoryStore store;
  OnEveryRank(2, [&](int rank) {
    const absl::Status status = GlooCommunicator::Connect({.rank = rank,
                                                           .size = 2 + rank,
                                                           .store = &store,
                                                           .prefix = "tp",
                                                           .network = Network(),
                                                           .timeout = kShort})
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr(absl::StrCat("rank ", 1 - rank, " published ")));
    EXPECT_THAT(MessageOf(status), HasSubstr(absl::StrCat("for a group of ", 2 + rank)));
  });
}

TEST(GlooTest, RankThatGaveUpBeforeWeConnectIsNamed) {
  MemoryStore store;
  // Rank 1 publishes, does not find rank 0 in time and closes its listener.
  ASSERT_FALSE(GlooCommunicator::Connect({.rank = 1,
                                          .size = 2,
                                          .store = &store,
                                          .prefix = "tp",
                                          .network = Network(),
                                          .timeout = absl::Milliseconds(1)})
                   .ok());

  const absl::Status status = GlooCommunicator::Connect({.rank = 0,
                                                         .size = 2,
                                                         .store = &store,
                                                         .prefix = "tp",
                                                         .network = Network(),
                                                         .timeout = kShort})
                                  .status();

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(MessageOf(status), HasSubstr("cannot connect to rank 1: it did not connect in time"));
}

TEST(GlooTest, LowerRankThatGaveUpIsNamedAtOnce) {
  MemoryStore store;
  ASSERT_FALSE(GlooCommunicator::Connect({.rank = 0,
                                          .size = 2,
                                          .store = &store,
                                          .prefix = "tp",
                                          .network = Network(),
                                          .timeout = absl::Milliseconds(1)})
                   .ok());
  const absl::Status status = GlooCommunicator::Connect({.rank = 1,
                                                         .size = 2,
                                                         .store = &store,
                                                         .prefix = "tp",
                                                         .network = Network(),
                                                         .timeout = absl::Minutes(2)})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status), HasSubstr("cannot connect to rank 0: connect 127.0.0.1:"));
  EXPECT_THAT(MessageOf(status), HasSubstr("Connection refused"));
}

// A store that tells a test when a rank has published its address.
class LoudStore final : public Store {
 public:
  explicit LoudStore(std::function<void(const std::string&)> heard) : heard_(std::move(heard)) {}
  absl::Status Set(absl::string_view key, absl::string_view bytes) override {
    const absl::Status status = inner_.Set(key, bytes);
    heard_(std::string(bytes.substr(0, bytes.find(' '))));
    return status;
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override {
    return inner_.Get(key, timeout);
  }

 private:
  MemoryStore inner_;
  const std::function<void(const std::string&)> heard_;
};

// A port scanner once ended the job.
TEST(GlooTest, GarbageWhileRanksMeetIsDroppedAndCounted) {
  constexpr int kStrangers = 6;
  std::mutex mu;
  std::vector<FileDescriptor> open;
  LoudStore store([&](const std::string& address) {
    const std::lock_guard lock(mu);
    for (int i = 0; i < kStrangers; ++i) {
      open.push_back(ConnectTo(address));
      const std::string garbage(64, static_cast<char>(i * 37));
      ASSERT_EQ(send(open.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 64);
    }
  });
  std::array<int64_t, 3> strangers = {};
  std::array<std::unique_ptr<Communicator>, 3> ranks;
  OnEveryRank(3, [&](int rank) {
    auto comm = GlooCommunicator::Connect({.rank = rank,
                                           .size = 3,
                                           .store = &store,
                                           .prefix = "tp",
                                           .network = Network(),
                                           .strangers = &strangers[static_cast<size_t>(rank)]});
    ASSERT_TRUE(comm.ok()) << comm.status();
    ranks[static_cast<size_t>(rank)] = *std::move(comm);
  });
  EXPECT_EQ(strangers[0], kStrangers);  // it waits for two peers, so it has seen them all
  OnEveryRank(3, [&](int rank) {
    Tensor tensor = Patterned(DType::kF32, rank, 1003);
    EXPECT_TRUE(ranks[static_cast<size_t>(rank)]
                    ->Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum))
                    .ok());
  });
}

TEST(GlooTest, SameRankTwiceIsRefusedByTheStore) {
  MemoryStore store;
  const GlooOptions options = {.rank = 0,
                               .size = 2,
                               .store = &store,
                               .prefix = "tp",
                               .network = Network(),
                               .timeout = absl::Milliseconds(1)};
  ASSERT_FALSE(GlooCommunicator::Connect(options).ok());

  const absl::Status status = GlooCommunicator::Connect(options).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(MessageOf(status), HasSubstr("rank 0 of 2 (gloo group 'tp'): store: key 'tp/0'"));
}

// Writes down what it sees: "begin", "receive from 1", "send to 1", "end".
class Notes final : public CallWatch {
 public:
  void OnBegin() override { notes.emplace_back("begin"); }
  void OnAwait(int peer, bool receives) override {
    notes.push_back(absl::StrCat(receives ? "receive from " : "send to ", peer));
  }
  void OnEnd() override { notes.emplace_back("end"); }
  void OnPoll(bool) override { notes.emplace_back("poll"); }
  std::vector<std::string> notes;
};

TEST(GlooTest, AWatchSeesWhomACallWaitsFor) {
  MemoryStore store;
  std::array<Notes, 2> watches;
  std::array<std::unique_ptr<GlooCommunicator>, 2> ranks;
  OnEveryRank(2, [&](int rank) {
    ranks[rank] = *GlooCommunicator::Connect({.rank = rank,
                                              .size = 2,
                                              .store = &store,
                                              .network = Network(),
                                              .timeout = kShort,
                                              .watch = &watches[rank]});
  });
  OnEveryRank(2, [&](int rank) { EXPECT_TRUE(ranks[rank]->Run(Collective::Barrier()).ok()); });
  const std::vector<std::string> barrier = {"begin", "receive from 1", "send to 1", "end"};
  EXPECT_EQ(watches[0].notes, barrier);

  // Rank 1 does not call: rank 0 is still in the call that failed.
  watches[0].notes.clear();
  EXPECT_FALSE(ranks[0]->Run(Collective::Barrier()).ok());
  const std::vector<std::string> alone = {"begin", "receive from 1"};
  EXPECT_EQ(watches[0].notes, alone);
}

// The peer takes part only after that.
TEST(GlooTest, ACallTellsBeforeItWaits) {
  const Ranks ranks = Gloo(2, absl::Seconds(20));
  int told = 0;
  Tensor mine = Patterned(DType::kF32, 0, 9001), other = Patterned(DType::kF32, 1, 9001);
  std::thread peer;
  const absl::Status status =
      ranks[0]->RunTelling(Collective::AllReduce(mine.view(), ReduceOp::kSum), nullptr, [&] {
        ++told;
        peer = std::thread([&] {
          EXPECT_TRUE(ranks[1]->Run(Collective::AllReduce(other.view(), ReduceOp::kSum)).ok());
        });
      });
  if (peer.joinable()) peer.join();
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_EQ(told, 1);
}

TEST(GlooTest, AnotherCallThanTheAnnouncedOneIsRefused) {
  const Ranks ranks = Gloo(2);
  OnEveryRank(ranks, [](Communicator& comm) {
    Tensor long_one = Patterned(DType::kF32, comm.rank(), 9001);
    Tensor short_one = Patterned(DType::kBF16, comm.rank(), 3);
    const Collective announced = Collective::AllReduce(short_one.view(), ReduceOp::kSum);
    const Collective other = Collective::AllReduce(long_one.view(), ReduceOp::kSum);
    Collective bad = announced;
    bad.kind = CollectiveKind::kReduceScatter;

    EXPECT_EQ(comm.RunTelling(other, &bad, [] {}).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(comm.RunTelling(other, &announced, [] {}).ok());
    EXPECT_EQ(
        comm.Run(other),
        absl::InvalidArgumentError(
            "gloo group 'test': found the call all_reduce of 9001 f32, expected all_reduce of "
            "3 bf16, which the call before it has announced"));
    EXPECT_TRUE(comm.Run(announced).ok());
    ExpectElements(short_one, 0, 3, [](int64_t i) { return Pattern(0, i) + Pattern(1, i); });
  });
}

// Rank 1 has only transfers: a send ends once the peer has posted what receives it.
TEST(GlooTest, TheReceivesOfTheAnnouncedCallArePostedBefore) {
  constexpr absl::Duration kLong = absl::Seconds(20);
  MemoryStore store;
  const auto options = [&](int rank) {
    return GlooOptions{
        .rank = rank, .size = 2, .store = &store, .network = Network(), .timeout = kLong};
  };
  Tensor mine = Patterned(DType::kF32, 0, 3), announced = Patterned(DType::kF32, 0, 2);
  std::array<float, 3> theirs = {1, 2, 3}, received = {};
  char byte = 0;
  OnEveryRank(2, [&](int rank) {
    if (rank == 0) {
      const auto gloo = *GlooCommunicator::Connect(options(0));
      const Collective reduction = Collective::AllReduce(mine.view(), ReduceOp::kSum);
      const Collective next = Collective::AllReduce(announced.view(), ReduceOp::kSum);
      EXPECT_TRUE(gloo->RunTelling(Collective::Barrier(), &reduction, [] {}).ok());
      EXPECT_TRUE(gloo->RunTelling(reduction, &next, [] {}).ok());
      EXPECT_TRUE(gloo->Run(next).ok());
      return;
    }
    Posts posts(*ConnectMesh(options(1)), 1, 2, nullptr);
    const auto post = [&](uint64_t slot, void* data, int64_t bytes, bool receive) {
      const size_t number = posts.next();
      posts.Post(0, slot, data, bytes, receive);
      return number;
    };
    const auto await = [&](size_t number) {
      EXPECT_NO_THROW(posts.Await(number, Clock::Real().Monotonic() + kLong));
    };
    // The barrier is slot 0, and cannot end before rank 1 sends.
    await(post(0, &byte, 1, true));
    await(post(1, theirs.data(), 12, false));
    await(post(0, &byte, 1, false));
    await(post(2, theirs.data(), 8, false));
    await(post(1, received.data(), 12, true));
    await(post(2, received.data(), 8, true));
  });
  ExpectElements(mine, 0, 3, [](int64_t i) { return Pattern(0, i) + static_cast<float>(i + 1); });
}

// The receives of the announced call are still posted then.
TEST(GlooTest, AGroupMayEndBeforeTheAnnouncedCall) {
  Ranks ranks = Gloo(2);
  Tensor tensor = Patterned(DType::kF32, 0, 1 << 20);
  const Collective call = Collective::AllReduce(tensor.view(), ReduceOp::kSum);
  OnEveryRank(ranks, [](Communicator& comm) {
    Tensor mine = Patterned(DType::kF32, comm.rank(), 1 << 20);
    const Collective own = Collective::AllReduce(mine.view(), ReduceOp::kSum);
    EXPECT_TRUE(comm.RunTelling(own, &own, [] {}).ok());
  });
  ranks[1].reset();
  const absl::Status lost = ranks[0]->RunTelling(call, &call, [] {});
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ranks[0]->Run(Collective::Barrier()), lost);
}

TEST(GlooTest, AnAbortedGroupStaysAbortedWhateverItHasAnnounced) {
  const Ranks ranks = Gloo(2);
  OnEveryRank(ranks, [](Communicator& comm) {
    Tensor tensor = Patterned(DType::kF32, comm.rank(), 1 << 20);
    const Collective call = Collective::AllReduce(tensor.view(), ReduceOp::kSum);
    EXPECT_TRUE(comm.RunTelling(call, &call, [] {}).ok());
    if (comm.rank() == 0) {
      comm.Abort();
      EXPECT_EQ(comm.Run(Collective::Barrier()).code(), absl::StatusCode::kAborted);
    }
  });
}

TEST(GlooTest, SilentPeerIsNamedAtTheTimeoutAndTheGroupStaysDead) {
  const Ranks ranks = Gloo(2, kShort);
  Tensor tensor = Patterned(DType::kF32, 0, 9001);

  const absl::Status status = ranks[0]->Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum));
  const absl::Status later = ranks[0]->Run(Collective::Barrier());

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MessageOf(status),
            "all_reduce (call 1) on rank 0 of 2 (gloo group 'test'): peer rank 1 did not take "
            "part within 300ms");
  EXPECT_EQ(later, status);
}

TEST(GlooTest, PeerThatDisconnectsIsNamed) {
  Ranks ranks = Gloo(2);
  ranks[1].reset();
  Tensor tensor = Patterned(DType::kBF16, 0, 9001);

  const absl::Status status = ranks[0]->Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum));

  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status), HasSubstr("all_reduce (call 1) on rank 0 of 2 (gloo group "
                                           "'test'): lost peer rank 1: "));
}

TEST(GlooTest, LossOfOneRankEndsTheCallsOfAllAndSomeoneNamesIt) {
  Ranks ranks = Gloo(4);
  ranks.pop_back();
  std::atomic<int> named{0};

  OnEveryRank(ranks, [&](Communicator& comm) {
    const absl::Status status = comm.Run(Collective::Barrier());
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr("lost peer rank "));
    if (MessageOf(status).find("lost peer rank 3") != std::string::npos) ++named;
  });

  EXPECT_GE(named.load(), 1);
}

TEST(GlooTest, PeersOfAnAbortedRankAreUnavailable) {
  const Ranks ranks = Gloo(2);
  absl::Status blocked;
  BlockedCall caller([&] { blocked = ranks[1]->Run(Collective::Barrier()); });

  ranks[0]->Abort();
  caller.join();

  EXPECT_EQ(blocked.code(), absl::StatusCode::kUnavailable) << blocked;
  EXPECT_THAT(MessageOf(blocked), HasSubstr("lost peer rank 0"));
}

TEST(GlooTest, OneRankNeedsNeitherStoreNorNetwork) {
  const auto comm = GlooCommunicator::Connect({});

  ASSERT_TRUE(comm.ok()) << comm.status();
  EXPECT_TRUE((*comm)->Run(Collective::Barrier()).ok());
}

TEST(GlooTest, AddressThatIsNotOursIsRefused) {
  const absl::Status foreign = OpenGlooNetwork("203.0.113.7").status();
  const absl::Status name = OpenGlooNetwork("gpu-7").status();

  EXPECT_EQ(foreign.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(foreign), "cannot listen on '203.0.113.7': Cannot assign requested address");
  EXPECT_EQ(name.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(name), HasSubstr("cannot listen on 'gpu-7': expected an IP address: "));
}

// The groups of a rank have connections of their own and one thread that moves their bytes.
TEST(GlooTest, GroupsShareANetwork) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  constexpr int kGroups = 3;
  MemoryStore store;
  std::array<std::vector<std::unique_ptr<Communicator>>, 2> groups;
  const auto before = threads();
  OnEveryRank(2, [&](int rank) {
    const GlooNetwork network = Network();
    for (int group = 0; group < kGroups; ++group) {
      groups[static_cast<size_t>(rank)].push_back(
          *GlooCommunicator::Connect({.rank = rank,
                                      .size = 2,
                                      .store = &store,
                                      .prefix = absl::StrCat("group-", group),
                                      .network = network}));
    }
  });
  EXPECT_EQ(threads() - before, 2);
  OnEveryRank(2 * kGroups, [&](int i) {
    Tensor tensor = Patterned(DType::kF32, i % 2, 100'003);
    const auto& of_rank = groups[static_cast<size_t>(i % 2)];
    EXPECT_TRUE(of_rank[static_cast<size_t>(i / 2)]
                    ->Run(Collective::AllReduce(tensor.view(), ReduceOp::kSum))
                    .ok());
    Tensor sum = Patterned(DType::kF32, 0, 100'003), other = Patterned(DType::kF32, 1, 100'003);
    for (int64_t at = 0; at < 100'003; ++at)
      sum.view().as<float>()[at] += other.view().as<float>()[at];
    EXPECT_EQ(std::memcmp(tensor.view().data, sum.view().data, 100'003 * sizeof(float)), 0);
  });
}

// gloo's writes to a closed connection would raise it.
TEST(GlooTest, ConnectIgnoresSigpipe) {
  std::signal(SIGPIPE, SIG_DFL);

  const Ranks ranks = Gloo(2);

  struct sigaction action = {};
  ASSERT_EQ(sigaction(SIGPIPE, nullptr, &action), 0);
  EXPECT_TRUE(action.sa_handler == SIG_IGN);
}

TEST(GlooTest, OnlyItsOwnThreadsYieldToComputation) {
  const auto batch_threads = [] {
    int count = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      count += sched_getscheduler(std::stoi(task.path().filename())) == SCHED_BATCH;
    return count;
  };
  ASSERT_EQ(batch_threads(), 0);
  const Ranks ranks = Gloo(2);
  EXPECT_EQ(batch_threads(), 2);
}

TEST(GlooTest, WrongOptionsAreNamed) {
  MemoryStore store;
  const auto message = [](const GlooOptions& options) {
    const absl::Status status = GlooCommunicator::Connect(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return MessageOf(status);
  };
  EXPECT_EQ(message({.rank = 2, .size = 2, .store = &store, .prefix = "tp"}),
            "gloo group 'tp': rank is 2, expected 0 to 1");
  EXPECT_EQ(message({.size = 0, .prefix = "tp"}),
            "gloo group 'tp': size is 0, expected at least 1");
  EXPECT_EQ(message({.size = 2, .prefix = "tp"}),
            "gloo group 'tp': no store, expected one for 2 ranks");
  EXPECT_EQ(message({.size = 2,
                     .store = &store,
                     .prefix = "tp",
                     .network = Network(),
                     .timeout = absl::ZeroDuration()}),
            "gloo group 'tp': timeout is 0, expected above 0");
}

}  // namespace
}  // namespace stretto::testing

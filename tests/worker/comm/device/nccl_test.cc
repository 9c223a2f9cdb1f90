// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "gmock/gmock.h"
#include "tests/worker/comm/device/device_groups.h"
#include "tests/worker/comm/tensors.h"
#include "worker/comm/nccl/nccl_communicator.h"

namespace stretto::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// Its waits cost no time but advance a clock by what was asked for.
class ImpatientStore final : public Store {
 public:
  explicit ImpatientStore(FakeClock& clock) : clock_(clock) {}
  absl::Status Set(absl::string_view key, absl::string_view bytes) override {
    return store_.Set(key, bytes);
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override {
    auto value = store_.Get(key, absl::ZeroDuration());
    if (!value.ok()) clock_.Advance(timeout);
    return value;
  }

 private:
  FakeClock& clock_;
  MemoryStore store_;
};

class NcclTest : public ::testing::Test {
 protected:
  void SetUp() override { fake_nccl::Reset(); }
  void TearDown() override { EXPECT_EQ(fake_nccl::Live(), 0) << "communicators were leaked"; }

  NcclOptions Options(int size) {
    return {.size = size,
            .store = &store_,
            .prefix = "job-1/tp.0",
            .library = FAKE_NCCL,
            .timeout = absl::Seconds(30),
            .polling = waiting_.polling()};
  }
  static absl::Status Connect(const NcclOptions& options) {
    return NcclCommunicator::Connect(options).status();
  }
  // A group that waits by the test's clock once it stands.
  DeviceRanks Join(int size) {
    stands_ = false;
    DeviceRanks ranks = Nccl(size, [this](NcclOptions& options) {
      options.polling = {.clock = &waiting_.clock, .pause = [this] {
                           stands_ ? waiting_.polling().pause() : std::this_thread::yield();
                         }};
    });
    stands_ = true;
    return ranks;
  }
  absl::Status AllReduce(DeviceCommunicator& comm) {
    return comm.Run(Collective::AllReduce(tensor_.view(), ReduceOp::kSum), StreamOf(comm.rank()));
  }
  static int Called(const std::string& name) { return fake_nccl::CallsSoFar()[name]; }

  std::atomic<bool> stands_{false};
  WaitingClock waiting_;
  ImpatientStore store_{waiting_.clock};
  Tensor tensor_ = Patterned(DType::kF32, 0, 3);
};

TEST_F(NcclTest, RanksThatNeverComeAreAllNamedAtTheDeadline) {
  ASSERT_TRUE(store_.Set("job-1/tp.0/2", "NCCL 2.28.9, group of 4").ok());
  const absl::Duration start = waiting_.clock.Monotonic();

  const absl::Status status = Connect(Options(4));

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MessageOf(status),
            "rank 0 of 4 (nccl group 'job-1/tp.0'): ranks 1, 3 did not appear within 30s");
  EXPECT_EQ(waiting_.clock.Monotonic() - start, absl::Seconds(30));
  EXPECT_EQ(Called("CommInitRankConfig"), 0);
}

TEST_F(NcclTest, RankThatAppearsButNeverJoinsEndsInDeadlineExceeded) {
  ASSERT_TRUE(store_.Set("job-1/tp.0/1", "NCCL 2.28.9, group of 2").ok());
  const absl::Duration start = waiting_.clock.Monotonic();

  const absl::Status status = Connect(Options(2));

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MessageOf(status),
            "rank 0 of 2 (nccl group 'job-1/tp.0'): all ranks appeared, but the group did not "
            "stand within 30s");
  EXPECT_EQ(waiting_.clock.Monotonic() - start, absl::Seconds(30));
  EXPECT_EQ(Called("CommAbort"), 1);
}

TEST_F(NcclTest, RankZeroThatNeverPublishesAnIdIsNamed) {
  ASSERT_TRUE(store_.Set("job-1/tp.0/0", "NCCL 2.28.9, group of 2").ok());
  NcclOptions options = Options(2);
  options.rank = 1;

  const absl::Status status = Connect(options);

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MessageOf(status),
            "rank 1 of 2 (nccl group 'job-1/tp.0'): rank 0 did not publish NCCL's id within 30s");
}

TEST_F(NcclTest, IdOfAnotherSizeIsRefused) {
  ASSERT_TRUE(store_.Set("job-1/tp.0/0", "NCCL 2.28.9, group of 2").ok());
  ASSERT_TRUE(store_.Set("job-1/tp.0/id", "short").ok());
  NcclOptions options = Options(2);
  options.rank = 1;

  const absl::Status status = Connect(options);

  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("rank 0 published an id of 5 bytes, expected 128"));
}

TEST_F(NcclTest, RankWithAnotherVersionOrGroupSizeIsNamed) {
  ASSERT_TRUE(store_.Set("job-1/tp.0/1", "NCCL 2.29.1, group of 2").ok());

  const absl::Status status = Connect(Options(2));

  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(MessageOf(status),
            "rank 0 of 2 (nccl group 'job-1/tp.0'): rank 1 has NCCL 2.29.1, group of 2, expected "
            "NCCL 2.28.9, group of 2");
}

TEST_F(NcclTest, UseThatNcclRefusesIsAFailedPrecondition) {
  fake_nccl::Set({.init = ncclInvalidUsage});

  const absl::Status status = Connect(Options(1));

  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(MessageOf(status),
            "rank 0 of 1 (nccl group 'job-1/tp.0'): cannot join: invalid usage: the fake's last "
            "error");
}

TEST_F(NcclTest, FailingIdIsUnavailable) {
  fake_nccl::Set({.unique_id = ncclSystemError});

  const absl::Status status = Connect(Options(1));

  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status), HasSubstr("cannot make an id: system error"));
}

TEST_F(NcclTest, OptionsThatCannotBeAreRefused) {
  const auto refusal = [&](auto change) {
    NcclOptions options = Options(2);
    change(options);
    const absl::Status status = Connect(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return MessageOf(status);
  };

  EXPECT_THAT(refusal([](NcclOptions& o) { o.size = 0; }), HasSubstr("size is 0"));
  EXPECT_THAT(refusal([](NcclOptions& o) { o.rank = 2; }), HasSubstr("rank is 2"));
  EXPECT_THAT(refusal([](NcclOptions& o) { o.store = nullptr; }), HasSubstr("no store"));
  EXPECT_THAT(refusal([](NcclOptions& o) { o.timeout = absl::ZeroDuration(); }),
              HasSubstr("timeout is 0"));
  EXPECT_THAT(refusal([](NcclOptions& o) { o.min_ctas = 5, o.max_ctas = 4; }),
              HasSubstr("min_ctas is 5 and max_ctas 4"));
}

TEST_F(NcclTest, InitDoesNotBlockAndLimitsTheBlocks) {
  NcclOptions options = Options(1);
  options.min_ctas = 2;
  options.max_ctas = 4;

  ASSERT_TRUE(Connect(options).ok());

  const ncclConfig_t config = fake_nccl::LastConfig();
  EXPECT_EQ(config.blocking, 0);
  EXPECT_EQ(config.minCTAs, 2);
  EXPECT_EQ(config.maxCTAs, 4);
}

TEST_F(NcclTest, NoLimitLeavesTheBlocksToNccl) {
  ASSERT_TRUE(Connect(Options(1)).ok());

  EXPECT_EQ(fake_nccl::LastConfig().minCTAs, INT_MIN);
  EXPECT_EQ(fake_nccl::LastConfig().maxCTAs, INT_MIN);
}

TEST_F(NcclTest, AsynchronousErrorIsPolledNamedAndRevokesTheGroup) {
  const DeviceRanks ranks = Join(2);
  ASSERT_TRUE(AllReduce(*ranks[0]).ok());
  ASSERT_TRUE(ranks[0]->Poll().ok());
  fake_nccl::Break(0, ncclRemoteError);

  const absl::Status status = ranks[0]->Poll();

  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(MessageOf(status),
            "rank 0 of 2 (nccl group 'tp'): poll: remote error: the fake's last error");
  EXPECT_EQ(Called("CommRevoke"), 1);
  EXPECT_TRUE(fake_nccl::Idle(StreamOf(0)));
  EXPECT_EQ(ranks[0]->Poll(), status) << "the group stays dead";
  EXPECT_EQ(Called("CommRevoke"), 1);
}

TEST_F(NcclTest, GroupThatCannotBeRevokedIsAborted) {
  const DeviceRanks ranks = Join(2);
  fake_nccl::Set({.revoke = ncclSystemError});
  fake_nccl::Break(0, ncclRemoteError);

  EXPECT_EQ(ranks[0]->Poll().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Called("CommAbort"), 0) << "its graphs may live, for which an abort waits";

  EXPECT_EQ(ranks[0]->Poll().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Called("CommAbort"), 1);
  EXPECT_EQ(AllReduce(*ranks[0]).code(), absl::StatusCode::kUnavailable);
}

TEST_F(NcclTest, CallThatNcclRefusesEndsTheGroup) {
  const DeviceRanks ranks = Join(2);
  fake_nccl::Set({.collective = ncclInvalidUsage});

  const absl::Status status = AllReduce(*ranks[0]);

  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("all_reduce (call 1): invalid usage"));
  EXPECT_EQ(ranks[0]->Poll(), status);
}

TEST_F(NcclTest, PeersThatNeverConnectEndACallAtItsDeadline) {
  const DeviceRanks ranks = Join(2);
  fake_nccl::Set({.in_progress = 1 << 30});

  const absl::Status status = AllReduce(*ranks[0]);

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(MessageOf(status),
            "rank 0 of 2 (nccl group 'tp'): all_reduce (call 1): peers did not take part within "
            "2m");
  EXPECT_EQ(ranks[0]->Poll(), status);
  EXPECT_EQ(Called("CommAbort"), 1) << "what is in progress cannot be revoked";
}

TEST_F(NcclTest, AbortEndsACallThatWaitsForPeers) {
  DeviceCommunicator* communicator = nullptr;
  FakeClock clock;
  const DeviceRanks ranks = Nccl(2, [&](NcclOptions& options) {
    if (options.rank != 0) return;
    options.polling = {.clock = &clock, .pause = [&] {
                         if (communicator != nullptr) communicator->Abort();
                       }};
  });
  communicator = ranks[0].get();
  fake_nccl::Set({.in_progress = 1 << 30});

  const absl::Status status = AllReduce(*ranks[0]);

  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
}

TEST_F(NcclTest, LeavingFinalizesAndDestroys) {
  Join(2);

  EXPECT_EQ(Called("CommFinalize"), 2);
  EXPECT_EQ(Called("CommDestroy"), 2);
  EXPECT_EQ(Called("CommAbort"), 0);
}

TEST_F(NcclTest, LeavingDoesNotWaitForPeersForEver) {
  {
    const DeviceRanks ranks = Join(1);
    fake_nccl::Set({.finalize_never_ends = true});
  }
  EXPECT_EQ(Called("CommAbort"), 1);
  EXPECT_EQ(Called("CommDestroy"), 0);
}

TEST_F(NcclTest, LeavingARevokedGroupDoesNotFinalizeAndWaitsForTheDevice) {
  {
    const DeviceRanks ranks = Join(1);
    ranks[0]->Abort();
    ASSERT_FALSE(ranks[0]->Poll().ok());
  }
  EXPECT_EQ(Called("CommFinalize"), 0);
  EXPECT_EQ(Called("CommDestroy"), 1);
}

TEST_F(NcclTest, RevokedGroupThatNeverComesToRestIsAborted) {
  {
    const DeviceRanks ranks = Join(1);
    fake_nccl::Set({.revoke_never_ends = true});
    ranks[0]->Abort();
    ASSERT_FALSE(ranks[0]->Poll().ok());
  }
  EXPECT_EQ(Called("CommAbort"), 1);
}

constexpr int64_t kBytes = 4096;

TEST_F(NcclTest, MemoryBecomesASymmetricWindowWhereTheMachineHasThemAndElseARegisteredBuffer) {
  for (bool windows : {true, false}) {
    for (int in_progress : {0, 3}) {
      fake_nccl::Reset();
      const DeviceRanks ranks = Join(1);
      fake_nccl::Set({.in_progress = in_progress, .windows = windows});
      {
        std::shared_ptr<void> memory = *ranks[0]->Allocate(kBytes);
        ASSERT_TRUE(ranks[0]->Register(memory, kBytes).ok());
        EXPECT_THAT(fake_nccl::Registrations(0),
                    ElementsAre(windows ? "window 4096" : "buffer 4096"));
        ranks[0]->Unregister(memory.get());
        ranks[0]->Unregister(memory.get());
      }
      EXPECT_EQ(Called("CommWindowDeregister"), windows ? 1 : 0);
      EXPECT_EQ(Called("CommDeregister"), windows ? 0 : 1);
      EXPECT_EQ(Called("MemFree"), 1);
      EXPECT_EQ(Called("MemFree while registered"), 0);
    }
  }
}

TEST_F(NcclTest, LeavingTakesBackWhatIsStillRegistered) {
  {
    const DeviceRanks ranks = Join(1);
    ASSERT_TRUE(ranks[0]->Register(*ranks[0]->Allocate(kBytes), kBytes).ok());
  }
  EXPECT_EQ(Called("CommWindowDeregister"), 1);
  EXPECT_EQ(Called("MemFree"), 1);
  EXPECT_EQ(Called("MemFree while registered"), 0);
}

TEST_F(NcclTest, MemoryThatNcclRefusesLeavesTheGroupWorking) {
  const DeviceRanks ranks = Join(1);
  fake_nccl::Set({.registration = ncclSystemError});
  std::shared_ptr<void> memory = *ranks[0]->Allocate(kBytes);

  const absl::Status status = ranks[0]->Register(memory, kBytes);

  EXPECT_EQ(MessageOf(status),
            "rank 0 of 1 (nccl group 'tp'): register a symmetric window (NCCL_WIN_ENABLE=0 does "
            "without): system error: the fake's last error");
  EXPECT_TRUE(ranks[0]->Poll().ok());
  EXPECT_EQ(memory.use_count(), 1);
  ranks[0]->Unregister(memory.get());
  EXPECT_EQ(Called("CommWindowDeregister"), 0);
  EXPECT_TRUE(AllReduce(*ranks[0]).ok());
  fake_nccl::Set({.windows = false, .registration = ncclSystemError});
  EXPECT_THAT(MessageOf(ranks[0]->Register(memory, kBytes)), HasSubstr("register: system error"));
  EXPECT_TRUE(ranks[0]->Poll().ok());
}

TEST_F(NcclTest, RegistrationThatBreaksTheCommunicatorEndsTheGroup) {
  const DeviceRanks ranks = Join(1);
  fake_nccl::Set({.registration = ncclSystemError, .registration_breaks = true});
  std::shared_ptr<void> memory = *ranks[0]->Allocate(kBytes);

  const absl::Status status = ranks[0]->Register(memory, kBytes);

  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(ranks[0]->Poll(), status);
  ranks[0]->Unregister(memory.get());
  EXPECT_EQ(ranks[0]->Register(*ranks[0]->Allocate(kBytes), kBytes), status);
}

TEST_F(NcclTest, PeersThatDoNotRegisterEndTheCallAtItsDeadline) {
  const DeviceRanks ranks = Join(2);
  fake_nccl::Set({.in_progress = 1 << 30});

  const absl::Status status = ranks[0]->Register(*ranks[0]->Allocate(kBytes), kBytes);

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_EQ(ranks[0]->Poll(), status);
}

// Asking the library to forget it might wait for what is dead; its end does not.
TEST_F(NcclTest, MemoryOfADeadGroupIsKeptUntilItsEndAndNotTakenBack) {
  for (bool told : {false, true}) {
    fake_nccl::Reset();
    {
      const DeviceRanks ranks = Join(1);
      std::shared_ptr<void> memory = *ranks[0]->Allocate(kBytes);
      ASSERT_TRUE(ranks[0]->Register(memory, kBytes).ok());
      ranks[0]->Abort();
      if (told) {
        ASSERT_FALSE(ranks[0]->Poll().ok());
      }

      ranks[0]->Unregister(memory.get());
      memory.reset();

      EXPECT_EQ(Called("MemFree"), 0);
    }
    EXPECT_EQ(Called("CommDestroy"), 1);
    EXPECT_EQ(Called("CommWindowDeregister"), 0);
    EXPECT_EQ(Called("MemFree"), 1);
    EXPECT_EQ(Called("MemFree while registered"), 0);
  }
}

TEST_F(NcclTest, MemoryOfAnAbortedCommunicatorGoesAtOnce) {
  const DeviceRanks ranks = Join(1);
  std::shared_ptr<void> memory = *ranks[0]->Allocate(kBytes);
  ASSERT_TRUE(ranks[0]->Register(memory, kBytes).ok());
  fake_nccl::Set({.revoke = ncclInvalidArgument});
  ranks[0]->Abort();
  ASSERT_FALSE(ranks[0]->Poll().ok());
  ASSERT_FALSE(ranks[0]->Poll().ok());
  ASSERT_EQ(Called("CommAbort"), 1);

  ranks[0]->Unregister(memory.get());

  EXPECT_EQ(memory.use_count(), 1);
}

TEST_F(NcclTest, MemoryThatNcclDoesNotForgetIsKept) {
  {
    const DeviceRanks ranks = Join(1);
    std::shared_ptr<void> memory = *ranks[0]->Allocate(kBytes);
    ASSERT_TRUE(ranks[0]->Register(memory, kBytes).ok());
    fake_nccl::Set({.deregistration = ncclSystemError});

    ranks[0]->Unregister(memory.get());

    EXPECT_EQ(memory.use_count(), 2);
  }
  EXPECT_EQ(Called("MemFree"), 1);
  EXPECT_EQ(Called("MemFree while registered"), 0);
}

TEST_F(NcclTest, MemoryThatCannotBeHadIsResourceExhausted) {
  const DeviceRanks ranks = Join(1);
  fake_nccl::Set({.memory = false});

  const absl::Status status = ranks[0]->Allocate(kBytes).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(status), HasSubstr("NCCL cannot allocate 4096 bytes of device memory"));
}

TEST_F(NcclTest, VersionIsThatOfTheLibrary) {
  fake_nccl::Set({.version = 22907});
  const auto version = NcclVersion(FAKE_NCCL);
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(*version, "2.29.7");
}

TEST_F(NcclTest, LibraryOlderThanTheBuildOrOfAnotherMajorVersionIsRefused) {
  for (int version : {22707, 2806, 30001}) {
    fake_nccl::Set({.version = version});
    const absl::Status status = Connect(Options(1));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(MessageOf(status), HasSubstr("expected 2.28.9 or a newer 2.x"));
  }
  fake_nccl::Set({.version = 22707});
  EXPECT_EQ(MessageOf(Connect(Options(1))),
            absl::StrCat("rank 0 of 1 (nccl group 'job-1/tp.0'): NCCL ('", FAKE_NCCL,
                         "') is version 2.27.7, expected 2.28.9 or a newer 2.x"));
}

TEST_F(NcclTest, LibraryThatCannotBeOpenedIsNamed) {
  NcclOptions options = Options(1);
  options.library = "/nowhere/libnccl.so.2";

  const absl::Status status = Connect(options);

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(MessageOf(status),
              StartsWith("rank 0 of 1 (nccl group 'job-1/tp.0'): cannot open NCCL: "
                         "/nowhere/libnccl.so.2: cannot open shared object file"));
}

TEST_F(NcclTest, MissingFunctionIsNamed) {
  const absl::Status status = NcclVersion(NCCL_STUMP).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("has no function ncclGetErrorString, expected one of "
                                           "version 2.28.9 or newer"));
}

}  // namespace
}  // namespace stretto::testing

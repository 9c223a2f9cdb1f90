// SPDX-License-Identifier: Apache-2.0

// What a move keeps, what it refuses, and what a crash within it leaves. The suite of stores has a
// store that was moved, too (job_store_test.cc).

#include "coordinator/store/etcd/move_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/store/etcd_server.h"
#include "tests/coordinator/store/etcd_subject.h"
#include "tests/coordinator/store/records.h"

namespace stretto::coordinator {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class MoveStateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!EtcdServer::Installed()) GTEST_SKIP() << EtcdServer::kSkipped;
  }
  // A database with jobs and workers; returns what is in it.
  Snapshot Fill(int jobs) {
    const auto store = Open(path_);
    std::vector<Record> records = {EpochRecord{Epoch(7)}, FullWorker("a"), FullWorker("b")};
    for (int i = 1; i <= jobs; ++i) records.emplace_back(FullJob(absl::StrCat("j", i), i));
    EXPECT_TRUE(store->Commit(records).ok());
    return *store->Load();
  }
  // As a coordinator opens it.
  absl::StatusOr<std::string> OpenedCluster() {
    const auto client = ConnectEtcd(SharedEtcd().endpoint());
    return ReadEtcdCluster(*client, {.prefix = folder_});
  }
  absl::StatusOr<MoveReport> ToEtcd(EtcdStoreOptions options = {}) {
    const Mover mover(SharedEtcd().endpoint(), folder_);
    options.prefix = folder_;
    return MoveToEtcd(path_, *mover.client, *mover.leadership, options);
  }
  absl::StatusOr<MoveReport> ToDatabase() {
    const Mover mover(SharedEtcd().endpoint(), folder_);
    return MoveToDatabase(*mover.client, *mover.leadership, mover.options, path_);
  }

  const std::string folder_ = TestFolder();  // also the prefix
  const std::string path_ = folder_ + "coordinator.db";
};

TEST_F(MoveStateTest, EveryRecordComesBackThoughItTakesManyTransactions) {
  const Snapshot before = Fill(50);
  auto moved = ToEtcd({.max_operations = 4});
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(moved->jobs, 50);
  EXPECT_EQ(moved->workers, 2);
  EXPECT_EQ(moved->cluster_id, before.cluster_id);
  EXPECT_EQ(moved->left, path_ + ".moved-1");
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_EQ(*Open(moved->left)->Load(), before);
  EXPECT_EQ(*OpenEtcd(SharedEtcd().endpoint(), folder_)->Load(), before);

  moved = ToDatabase();
  ASSERT_TRUE(moved.ok()) << moved.status();
  EXPECT_EQ(moved->jobs, 50);
  EXPECT_EQ(*Open(path_)->Load(), before);
  // Nobody opens what is left in etcd.
  const absl::Status closed = OpenedCluster().status();
  EXPECT_EQ(closed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(closed.message()),
      AllOf(HasSubstr(folder_ + " of etcd at "), HasSubstr("has moved to the database " + path_)));
}

TEST_F(MoveStateTest, ATargetThatIsNotEmptyIsLeftAsItIs) {
  const Snapshot there = *OpenEtcd(SharedEtcd().endpoint(), folder_)->Load();
  const Snapshot here = Fill(1);
  absl::Status refused = ToEtcd().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(": found key " + folder_), HasSubstr(", expected none")));
  refused = ToDatabase().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(refused.message(), "job store " + path_ + ": found " + path_ +
                                   ", expected none: it is not overwritten. Give an empty "
                                   "--state-dir");
  EXPECT_EQ(*Open(path_)->Load(), here);
  EXPECT_EQ(*OpenEtcd(SharedEtcd().endpoint(), folder_)->Load(), there);
}

TEST_F(MoveStateTest, WithoutASourceNothingIsMade) {
  EXPECT_EQ(ToEtcd().status().message(), "job store " + path_ + " does not exist");
  EXPECT_EQ(*OpenedCluster(), "");
  EXPECT_THAT(std::string(ToDatabase().status().message()),
              HasSubstr("found no cluster, expected"));
  EXPECT_FALSE(fs::exists(path_));
}

// etcd refuses the copy after it was begun.
TEST_F(MoveStateTest, AnUnfinishedCopyIsOpenedByNobodyAndTheSourceIsWhole) {
  const Snapshot before = Fill(2);
  const absl::Status failed = ToEtcd({.max_bytes = 10}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument) << failed;
  EXPECT_THAT(std::string(OpenedCluster().status().message()),
              AllOf(HasSubstr("the move of " + path_ + " to etcd was not completed"),
                    HasSubstr("etcdctl del --prefix " + folder_)));
  EXPECT_EQ(*Open(path_)->Load(), before);
}

TEST_F(MoveStateTest, WhoDoesNotLeadClosesNothing) {
  const Mover mover(SharedEtcd().endpoint(), folder_);
  EndLease(SharedEtcd().endpoint(), folder_);
  EXPECT_EQ(SetClosed(*mover.client, *mover.leadership, mover.options, "why").code(),
            absl::StatusCode::kAborted);
  EXPECT_EQ(*OpenedCluster(), "");
}

}  // namespace
}  // namespace stretto::coordinator

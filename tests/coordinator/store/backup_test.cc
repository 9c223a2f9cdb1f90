// SPDX-License-Identifier: Apache-2.0

// Copies of a database in use.

#include "coordinator/store/backup.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/coordinator/store/records.h"

namespace stretto::coordinator {
namespace {

using ::testing::HasSubstr;

// Locks the folder as a coordinator that runs does.
FileDescriptor Lock(const std::string& folder) {
  FileDescriptor lock(open((folder + "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  return lock;
}

// Leaves the files of a coordinator that was killed after its tenth job. Returns its log.
std::string LeaveLog(const std::string& path) {
  std::string file, log;
  {
    const auto store = Open(path);
    for (int i = 1; i <= 10; ++i) {
      EXPECT_TRUE(store->Commit({PlainJob(absl::StrCat("j", i), i)}).ok());
    }
    file = *ReadFile(path);
    log = *ReadFile(path + "-wal");
  }
  Write(path, file);
  Write(path + "-wal", log);
  return log;
}

// Commit i has job i, worker i and epoch i, and a copy must be of one instant between two commits.
TEST(BackupTest, CopiesUnderWritesAreOfOneInstantAndOpen) {
  const std::string folder = TestFolder(), path = folder + "coordinator.db";
  const FileDescriptor lock = Lock(folder);
  auto store = Open(path);
  std::atomic<int64_t> commits = 0;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int64_t i = 1; !done; ++i) {
      JobRecord job = PlainJob(absl::StrCat("j", i), i);
      job.spec = std::string(20'000, static_cast<char>('a' + i % 26));
      ASSERT_TRUE(
          store->Commit({job, FullWorker(absl::StrCat("w", i)), EpochRecord{Epoch(i)}}).ok());
      commits = i;
      commits.notify_all();
    }
  });
  for (int copy = 0; copy < 5; ++copy) {
    const int64_t before = commits;
    commits.wait(before);
    const std::string file = absl::StrCat(folder, "copy-", copy);
    const auto report = BackUpSqliteStore(path, file, folder + "lock");
    const int64_t after = commits + 1;  // it may be stored and not yet counted
    ASSERT_TRUE(report.ok()) << report.status();
    const auto snapshot = Open(file)->Load();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    const int64_t last = snapshot->epoch.last.value();
    EXPECT_GE(last, before);
    EXPECT_LE(last, after);
    EXPECT_EQ(static_cast<int64_t>(snapshot->jobs.size()), last);
    EXPECT_EQ(static_cast<int64_t>(snapshot->workers.size()), last);
    EXPECT_EQ(report->jobs, last);
    EXPECT_EQ(report->workers, last);
    EXPECT_EQ(report->bytes % 4096, 0);
    for (const JobRecord& job : snapshot->jobs) {
      EXPECT_TRUE(job.spec == std::string(20'000, static_cast<char>('a' + job.number % 26)));
    }
  }
  done = true;
  writer.join();
  EXPECT_FALSE(std::filesystem::exists(folder + "copy-0.partial"));
}

TEST(BackupTest, OfAClosedDatabaseHasAllOfIt) {
  const std::string folder = TestFolder(), path = folder + "coordinator.db";
  ASSERT_TRUE(Open(path)->Commit({FullJob("j", 1), EpochRecord{Epoch(7)}}).ok());
  ASSERT_TRUE(BackUpSqliteStore(path, folder + "copy", folder + "lock").ok());
  const auto original = Open(path)->Load(), copy = Open(folder + "copy")->Load();
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->jobs, original->jobs);
  EXPECT_EQ(copy->cluster_id, original->cluster_id);
}

TEST(BackupTest, AnExistingFileIsLeftAsItIs) {
  const std::string folder = TestFolder(), path = folder + "coordinator.db";
  const auto store = Open(path);
  const absl::Status status = BackUpSqliteStore(path, path, folder + "lock").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(), "backup " + path + ": found a file, expected a new name");
  EXPECT_TRUE(store->Commit({PlainJob("j", 1)}).ok());
}

TEST(BackupTest, WithoutADatabaseOrAFolderNothingIsMade) {
  const std::string folder = TestFolder();
  EXPECT_EQ(BackUpSqliteStore(folder + "none.db", folder + "copy", folder + "lock").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(folder + "none.db"));
  Open(folder + "coordinator.db");
  EXPECT_EQ(BackUpSqliteStore(folder + "coordinator.db", folder + "no/copy", folder + "lock")
                .status()
                .code(),
            absl::StatusCode::kNotFound);
}

TEST(BackupTest, OfADamagedDatabaseIsRefusedAndLeavesNoFile) {
  const std::string folder = TestFolder(), path = folder + "coordinator.db";
  JobRecord job = PlainJob("j", 1);
  job.spec = "the specification of the job";
  ASSERT_TRUE(Open(path)->Commit({job}).ok());
  std::string bytes = *ReadFile(path);
  bytes[bytes.find("specification")] ^= 1;
  Write(path, bytes);
  const absl::Status status = BackUpSqliteStore(path, folder + "copy", folder + "lock").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("of table jobs: found checksum "));
  for (const char* end : {"", ".partial", ".partial-wal"}) {
    EXPECT_FALSE(std::filesystem::exists(absl::StrCat(folder, "copy", end))) << end;
  }
}

TEST(BackupTest, AfterAKillItHasWhatIsInTheLogAndLeavesTheLogAsItIs) {
  const std::string folder = TestFolder(), path = folder + "coordinator.db";
  const std::string log = LeaveLog(path);
  const auto report = BackUpSqliteStore(path, folder + "copy", folder + "lock");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->jobs, 10);
  ASSERT_TRUE(std::filesystem::exists(path + "-wal"));
  EXPECT_TRUE(*ReadFile(path + "-wal") == log);
}

TEST(BackupTest, AfterAKillADamagedLogIsRefusedAndLeftAsItIs) {
  const std::string folder = TestFolder(), path = folder + "coordinator.db";
  std::string log = LeaveLog(path);
  log[log.size() / 2] ^= 1;
  Write(path + "-wal", log);
  const absl::Status status = BackUpSqliteStore(path, folder + "copy", folder + "lock").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("-wal on are lost"));
  EXPECT_FALSE(std::filesystem::exists(folder + "copy"));
  ASSERT_TRUE(std::filesystem::exists(path + "-wal"));
  EXPECT_TRUE(*ReadFile(path + "-wal") == log);
  EXPECT_EQ(OpenSqliteStore(path).status().code(), absl::StatusCode::kDataLoss);
}

TEST(BackupTest, OfANewerVersionIsRefused) {
  const std::string folder = TestFolder(), path = folder + "coordinator.db";
  Open(path);
  Execute(path,
          absl::StrCat("PRAGMA user_version = 99; PRAGMA application_id = ", ApplicationId(99)));
  const absl::Status status = BackUpSqliteStore(path, folder + "copy", folder + "lock").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("schema version 99"));
}

}  // namespace
}  // namespace stretto::coordinator

// SPDX-License-Identifier: Apache-2.0

// One suite for every JobStore, then what only SQLite can do.

#include "coordinator/store/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "coordinator/core/retired_jobs.h"
#include "coordinator/store/schema.h"
#include "tests/coordinator/store/etcd_server.h"
#include "tests/coordinator/store/etcd_subject.h"
#include "tests/coordinator/store/records.h"

namespace stretto::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A store, and the same content as another process would find it after this one died now.
struct Subject {
  std::string name;
  std::function<std::unique_ptr<JobStore>(const std::string& folder)> open;
  // For durable ones.
  std::function<std::unique_ptr<JobStore>(const std::string& folder)> open_after_a_crash = {};
  friend void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }
};

class JobStoreTest : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    if ((GetParam().name == "Etcd" || GetParam().name == "Moved") && !EtcdServer::Installed())
      GTEST_SKIP() << EtcdServer::kSkipped;
  }
  std::string folder_ = TestFolder();
  std::unique_ptr<JobStore> store_ = GetParam().open(folder_);
};

TEST_P(JobStoreTest, NewStoreIsEmpty) {
  const auto snapshot = store_->Load();
  ASSERT_TRUE(snapshot.ok());
  EXPECT_THAT(snapshot->jobs, IsEmpty());
  EXPECT_THAT(snapshot->workers, IsEmpty());
  EXPECT_EQ(snapshot->epoch.last, Epoch(0));
}

TEST_P(JobStoreTest, AClusterKeepsItsIdAndAnotherHasAnother) {
  const std::string id = store_->Load()->cluster_id;
  EXPECT_EQ(id.size(), 32u);
  ASSERT_TRUE(store_->Commit({EpochRecord{Epoch(1)}}).ok());
  EXPECT_EQ(store_->Load()->cluster_id, id);
  std::filesystem::create_directories(folder_ + "other/");
  EXPECT_NE(GetParam().open(folder_ + "other/")->Load()->cluster_id, id);
}

TEST_P(JobStoreTest, EveryFieldComesBack) {
  const JobRecord full = FullJob("full", 2), plain = PlainJob("plain", 1);
  const WorkerRecord worker = FullWorker("w");
  ASSERT_TRUE(store_->Commit({full, plain, worker, EpochRecord{Epoch(7)}}).ok());
  const auto snapshot = store_->Load();
  ASSERT_TRUE(snapshot.ok());
  ASSERT_EQ(snapshot->jobs.size(), 2u);
  EXPECT_EQ(snapshot->jobs[0], plain);  // by number, not by id
  EXPECT_EQ(snapshot->jobs[1], full);
  ASSERT_EQ(snapshot->workers.size(), 1u);
  EXPECT_EQ(snapshot->workers[0], worker);
  EXPECT_EQ(snapshot->epoch.last, Epoch(7));
}

TEST_P(JobStoreTest, LaterRecordReplacesEarlier) {
  JobRecord job = PlainJob("j", 1);
  ASSERT_TRUE(store_->Commit({job}).ok());
  job.state = JobState::kCancelled;
  job.uid = "uid-again";
  ASSERT_TRUE(store_->Commit({job}).ok());
  const auto snapshot = store_->Load();
  ASSERT_EQ(snapshot->jobs.size(), 1u);
  EXPECT_EQ(snapshot->jobs[0], job);
}

// It keeps its row, so its uid and its number stay its own.
TEST_P(JobStoreTest, ARetiredJobTakesThePlaceOfTheWholeOne) {
  JobRecord whole = FullJob("j", 1);
  whole.summary = std::string(160'000, 's');
  ASSERT_TRUE(store_->Commit({whole, PlainJob("k", 2)}).ok());
  JobRecord retired = RetiredRecord(whole, kTime);
  retired.summary = std::string("\x0a\x00\x80", 3);
  ASSERT_TRUE(store_->Commit({retired}).ok());
  const auto snapshot = store_->Load();
  ASSERT_EQ(snapshot->jobs.size(), 2u);
  EXPECT_EQ(snapshot->jobs[0], retired);
  EXPECT_EQ(snapshot->jobs[0].retire_time, kTime);
  ASSERT_TRUE(store_->Commit({JobErased{"j"}}).ok());
  EXPECT_EQ(store_->Load()->jobs.size(), 1u);
}

TEST_P(JobStoreTest, ErasedJobIsGone) {
  ASSERT_TRUE(store_->Commit({PlainJob("j", 1), PlainJob("k", 2)}).ok());
  ASSERT_TRUE(store_->Commit({JobErased{"j"}, JobErased{"never-there"}}).ok());
  const auto snapshot = store_->Load();
  ASSERT_EQ(snapshot->jobs.size(), 1u);
  EXPECT_EQ(snapshot->jobs[0].id, "k");
}

TEST_P(JobStoreTest, ErasedWorkerIsGone) {
  ASSERT_TRUE(store_->Commit({FullWorker("v"), FullWorker("w")}).ok());
  ASSERT_TRUE(store_->Commit({WorkerErased{"v"}, WorkerErased{"never-there"}}).ok());
  const auto snapshot = store_->Load();
  ASSERT_EQ(snapshot->workers.size(), 1u);
  EXPECT_EQ(snapshot->workers[0].id, "w");
}

TEST_P(JobStoreTest, LowerEpochIsRefusedAndTheWholeBatchWithIt) {
  ASSERT_TRUE(store_->Commit({EpochRecord{Epoch(5)}}).ok());
  const absl::Status status =
      store_->Commit({PlainJob("j", 1), FullWorker("w"), EpochRecord{Epoch(4)}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "epoch 4 is lower than the stored one, 5");
  const auto snapshot = store_->Load();
  EXPECT_THAT(snapshot->jobs, IsEmpty());
  EXPECT_THAT(snapshot->workers, IsEmpty());
  EXPECT_EQ(snapshot->epoch.last, Epoch(5));
  EXPECT_TRUE(store_->Commit({EpochRecord{Epoch(5)}}).ok());
}

TEST_P(JobStoreTest, RepeatedUidOrNumberIsRefused) {
  ASSERT_TRUE(store_->Commit({PlainJob("j", 1)}).ok());
  JobRecord same_uid = PlainJob("k", 2);
  same_uid.uid = "uid-j";
  const absl::Status status = store_->Commit({same_uid});
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(),
            "job \"k\" (uid uid-j, number 2) repeats a stored job's uid or number");
  EXPECT_EQ(store_->Commit({PlainJob("k", 1)}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Load()->jobs.size(), 1u);
}

// Stores whose content outlives their process.
class DurableJobStoreTest : public JobStoreTest {};

TEST_P(DurableJobStoreTest, CommittedIsThereAfterACrashAndUncommittedIsNot) {
  ASSERT_TRUE(store_->Commit({PlainJob("j", 1)}).ok());
  ASSERT_TRUE(store_->Commit({FullJob("k", 2), EpochRecord{Epoch(7)}}).ok());
  ASSERT_FALSE(store_->Commit({PlainJob("l", 3), EpochRecord{Epoch(1)}}).ok());
  const auto snapshot = GetParam().open_after_a_crash(folder_)->Load();

  ASSERT_TRUE(snapshot.ok());
  ASSERT_EQ(snapshot->jobs.size(), 2u);
  EXPECT_EQ(snapshot->jobs[1], FullJob("k", 2));
  EXPECT_EQ(snapshot->epoch.last, Epoch(7));
}

TEST_P(DurableJobStoreTest, IsThereAfterClosingAndOpening) {
  ASSERT_TRUE(store_->Commit({FullJob("j", 1), FullWorker("w")}).ok());
  store_.reset();
  store_ = GetParam().open(folder_);
  EXPECT_EQ(store_->Load()->jobs[0], FullJob("j", 1));
  EXPECT_TRUE(store_->Commit({PlainJob("k", 2)}).ok());
}

// The files as a crash would leave them: nothing closed, nothing checkpointed.
std::string CopyOf(const std::string& folder) {
  const std::string after = folder + "after/";
  std::filesystem::create_directory(after);
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.is_regular_file()) std::filesystem::copy(file.path(), after);
  }
  return after;
}

Subject Memory() {
  return {"Memory", [](const std::string&) { return NewMemoryStore(); }};
}
Subject Sqlite() {
  const auto open = [](const std::string& folder) { return Open(folder + "jobs.db"); };
  return {"Sqlite", open, [open](const std::string& folder) { return open(CopyOf(folder)); }};
}
Subject Observed() {
  const auto open = [](const std::string& folder) {
    return ObserveStore(Open(folder + "jobs.db"), Clock::Real(),
                        [](absl::Duration, const absl::Status&) {});
  };
  return {"Observed", open, [open](const std::string& folder) { return open(CopyOf(folder)); }};
}
// The folder is the prefix.
Subject Etcd() {
  return {"Etcd",
          [](const std::string& folder) -> std::unique_ptr<JobStore> {
            if (!EtcdServer::Installed()) return nullptr;
            return OpenEtcd(SharedEtcd().endpoint(), folder);
          },
          [](const std::string& folder) -> std::unique_ptr<JobStore> {
            EndLease(SharedEtcd().endpoint(), folder);
            return OpenEtcd(SharedEtcd().endpoint(), folder);
          }};
}
// What was stored moves to etcd and back before it is opened again.
Subject Moved() {
  const auto open = [](const std::string& folder) { return Open(folder + "jobs.db"); };
  return {"Moved", open, [open](const std::string& folder) -> std::unique_ptr<JobStore> {
            if (!EtcdServer::Installed()) return nullptr;
            const std::string copy = CopyOf(folder), there = copy + "jobs.db";
            const Mover mover(SharedEtcd().endpoint(), copy);
            const auto moved = MoveToEtcd(there, *mover.client, *mover.leadership, mover.options);
            EXPECT_TRUE(moved.ok()) << moved.status();
            const auto back =
                MoveToDatabase(*mover.client, *mover.leadership, mover.options, there);
            EXPECT_TRUE(back.ok()) << back.status();
            return open(copy);
          }};
}
std::string NameOfSubject(const ::testing::TestParamInfo<Subject>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Stores, JobStoreTest,
                         ::testing::Values(Memory(), Sqlite(), Observed(), Etcd()), NameOfSubject);
INSTANTIATE_TEST_SUITE_P(Stores, DurableJobStoreTest,
                         ::testing::Values(Sqlite(), Observed(), Etcd(), Moved()), NameOfSubject);

// SQLite alone

TEST(SqliteStoreTest, NewerSchemaIsRefusedNamingBothVersions) {
  const std::string path = TestFolder() + "jobs.db";
  Open(path);
  Execute(path,
          absl::StrCat("PRAGMA user_version = 99; PRAGMA application_id = ", ApplicationId(99)));
  const absl::Status status = OpenSqliteStore(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            path +
                " has schema version 99; this build knows versions up to 3. Use a "
                "newer coordinator");
}

// As damage of the header leaves it.
TEST(SqliteStoreTest, VersionThatDoesNotBelongToTheRestOfTheHeaderIsDataLoss) {
  const std::string path = TestFolder() + "jobs.db";
  Open(path);
  Execute(path, "PRAGMA user_version = 99");
  const absl::Status status = OpenSqliteStore(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("is damaged: its header has schema version 99 and application id "));
}

TEST(SqliteStoreTest, ALogWithoutItsDatabaseIsRefused) {
  const std::string path = TestFolder() + "jobs.db";
  std::ofstream(path + "-wal") << "frames";
  const absl::Status status = OpenSqliteStore(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("-wal without the database"));
}

// A truncated file is not a new cluster, whose workers would end everything that they run.
TEST(SqliteStoreTest, AnEmptyFileIsRefused) {
  const std::string path = TestFolder() + "coordinator.db";
  std::ofstream(path).flush();
  const absl::Status status = OpenSqliteStore(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path + ": found 0 bytes, expected a database"));
  EXPECT_EQ(std::filesystem::file_size(path), 0u);
}

// What was left where a coordinator died while it made the file.
TEST(SqliteStoreTest, AnUnfinishedNewFileIsBegunAgain) {
  const std::string path = TestFolder() + "coordinator.db";
  std::ofstream(path + ".new") << "half";
  const auto store = Open(path);
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  EXPECT_TRUE(store->Commit({EpochRecord{Epoch(1)}}).ok());
}

// As release 0.1.0 makes it.
TEST(SqliteStoreTest, ADatabaseWithoutAClusterGetsAnIdAndKeepsTheRest) {
  const std::string path = TestFolder() + "coordinator.db";
  std::ifstream file(STRETTO_SOURCE_DIR "/tests/golden/store/schema-1.sql");
  Execute(path, std::string((std::istreambuf_iterator<char>(file)), {}));
  std::string cluster;
  for (int i = 0; i < 2; ++i) {
    const auto snapshot = Open(path)->Load();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    EXPECT_EQ(snapshot->epoch.last, Epoch(1));
    ASSERT_EQ(snapshot->jobs.size(), 1u);
    const JobRecord& job = snapshot->jobs[0];
    EXPECT_EQ(job.id, "gpt");
    EXPECT_EQ(job.uid, "3fe4cae8f035006e8f59a48e42f4133e");
    EXPECT_EQ(job.number, 1);
    EXPECT_EQ(job.state, JobState::kFailed);
    EXPECT_FALSE(job.retire_time.has_value());
    EXPECT_EQ(job.spec.size(), 169u);
    EXPECT_EQ(job.summary.str(), "\x06\x0a\x04\x62\x02\x10\x02");
    EXPECT_EQ(job.conditions.size(), 3u);
    ASSERT_TRUE(job.first_failure.has_value());
    EXPECT_EQ(job.first_failure->reason, "DataInvalid");
    ASSERT_EQ(snapshot->workers.size(), 1u);
    EXPECT_EQ(snapshot->workers[0].id, "node-a");
    EXPECT_EQ(snapshot->workers[0].devices.size(), 2u);
    EXPECT_EQ(snapshot->cluster_id.size(), 32u);
    if (i == 1) {
      EXPECT_EQ(snapshot->cluster_id, cluster);
    }
    cluster = snapshot->cluster_id;
  }
}

TEST(SqliteStoreTest, FileThatIsNoDatabaseIsDataLoss) {
  const std::string path = TestFolder() + "jobs.db";
  std::ofstream(path) << std::string(8192, 'x');
  const absl::Status status = OpenSqliteStore(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            "job store " + path +
                ": file is not a database. Restore a copy of it, or keep what is whole with "
                "stretto-coordinator --repair");
}

TEST(SqliteStoreTest, DamagedDatabaseIsDataLoss) {
  const std::string path = TestFolder() + "jobs.db";
  {
    auto store = Open(path);
    for (int64_t i = 1; i < 50; ++i) {
      ASSERT_TRUE(store->Commit({FullJob(absl::StrCat("j", i), i)}).ok());
    }
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096);
  file << std::string(4096, '\x5a');
  file.close();
  const absl::Status status = OpenSqliteStore(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), StartsWith("job store " + path));
}

TEST(SqliteStoreTest, RecordThatDoesNotParseIsDataLossNamingIt) {
  const std::string path = TestFolder() + "jobs.db";
  ASSERT_TRUE(Open(path)->Commit({PlainJob("j", 1)}).ok());
  ExecuteAsARelease(path, "UPDATE jobs SET body = '{\"state\": \"x\"}'");
  const absl::Status status = Open(path)->Load().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), StartsWith("stored job \"j\" does not parse: "));
  ExecuteAsARelease(path, "UPDATE jobs SET body = '{\"attempt\": 99999999999999999999}'");
  EXPECT_EQ(Open(path)->Load().status().message(),
            "stored job \"j\": found a number that is no integer of 64 bits");
}

TEST(SqliteStoreTest, ValueThatThisBuildDoesNotKnowIsDataLossNamingTheRecord) {
  const std::string path = TestFolder() + "jobs.db";
  const auto message = [&](const std::string& change) {
    EXPECT_TRUE(Open(path)->Commit({PlainJob("j", 1), FullWorker("a")}).ok());
    ExecuteAsARelease(path, change);
    const absl::Status status = Open(path)->Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  EXPECT_EQ(message("UPDATE jobs SET body = '{\"state\": 99}'"),
            "stored job \"j\": state: found 99, expected 1 to 9; a newer release may have written "
            "it");
  EXPECT_EQ(
      message("UPDATE jobs SET body = '{\"attempts\": [{\"cause\": 6}]}'"),
      "stored job \"j\": cause of an attempt's end: found 6, expected 0 to 5; a newer release "
      "may have written it");
  EXPECT_EQ(message("UPDATE jobs SET body = '{\"ranks\": [{\"state\": 0}]}'"),
            "stored job \"j\": state of a rank: found 0, expected 1 to 4; a newer release may have "
            "written it");
  EXPECT_EQ(
      message("UPDATE jobs SET body = '{\"conditions\": [{\"status\": 4}]}'"),
      "stored job \"j\": status of a condition: found 4, expected 1 to 3; a newer release may "
      "have written it");
  EXPECT_EQ(
      message("UPDATE workers SET body = '{\"state\": 3}'"),
      "stored worker \"a\": state: found 3, expected 1 to 2; a newer release may have written "
      "it");
}

TEST(SqliteStoreTest, FullDiskIsResourceExhaustedAndTheStoreGoesOn) {
  const std::string path = TestFolder() + "jobs.db";
  auto store = Open(path, {.max_pages = 20});
  JobRecord large = PlainJob("large", 1);
  large.spec = std::string(200'000, 's');
  const absl::Status status = store->Commit({PlainJob("small", 2), large});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "job store " + path +
                                  ": database or disk is full. Nothing new is accepted "
                                  "until it has room; jobs that run continue");
  EXPECT_THAT(store->Load()->jobs, IsEmpty());
  EXPECT_TRUE(store->Commit({PlainJob("small", 2)}).ok());
}

TEST(SqliteStoreTest, SecondCoordinatorOnTheFileIsRefused) {
  const std::string path = TestFolder() + "jobs.db";
  const auto first = Open(path);
  ASSERT_TRUE(first->Commit({PlainJob("j", 1)}).ok());
  const absl::Status status = OpenSqliteStore(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      status.message(),
      "job store " + path + ": database is locked; expected no other process to have it open");
}

TEST(SqliteStoreTest, MissingFolderIsNotFound) {
  const std::string path = TestFolder() + "none/jobs.db";
  const absl::Status status = OpenSqliteStore(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("none/ does not exist"));
}

TEST(SqliteStoreTest, WriteThatTheSystemRefusesIsUnavailableWithItsReasonAndTheStoreContinues) {
  const std::string path = TestFolder() + "jobs.db";
  const auto store = Open(path);
  ASSERT_TRUE(store->Commit({PlainJob("j", 1)}).ok());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before, none = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  none.rlim_max = before.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const absl::Status refused = store->Commit({PlainJob("k", 2)});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(refused.message()),
            absl::StrCat("job store ", path,
                         ": disk I/O error: File too large. Nothing new is accepted until it can "
                         "be written; jobs that run continue"));
  EXPECT_TRUE(store->Commit({PlainJob("l", 3)}).ok());
  EXPECT_EQ(store->Load()->jobs.size(), 2u);
}

TEST(SqliteStoreTest, SyncsFullyInWalMode) {
  const std::string path = TestFolder() + "jobs.db";
  auto store = Open(path);
  ASSERT_TRUE(store->Commit({PlainJob("j", 1)}).ok());
  EXPECT_GT(std::filesystem::file_size(path + "-wal"), 0u);
}

// Takes a second for each record, and refuses more than one.
class SlowStore final : public JobStore {
 public:
  explicit SlowStore(FakeClock& clock) : clock_(clock) {}
  absl::StatusOr<Snapshot> Load() override { return Snapshot{}; }
  absl::Status Commit(const std::vector<Record>& records) override {
    clock_.Advance(absl::Seconds(records.size()));
    return records.size() < 2 ? absl::OkStatus() : absl::ResourceExhaustedError("disk full");
  }

 private:
  FakeClock& clock_;
};

TEST(ObservedStoreTest, TellsHowLongCommitsTookAndHowTheyEnded) {
  FakeClock clock;
  std::vector<std::string> told;
  const auto store = ObserveStore(
      std::make_unique<SlowStore>(clock), clock,
      [&](absl::Duration duration, const absl::Status& status) {
        told.push_back(absl::StrCat(absl::FormatDuration(duration), " ", status.ToString()));
      });
  EXPECT_TRUE(store->Commit({PlainJob("j", 1)}).ok());
  EXPECT_EQ(store->Commit({PlainJob("k", 2), PlainJob("l", 3)}),
            absl::ResourceExhaustedError("disk full"));
  EXPECT_THAT(told, ::testing::ElementsAre("1s OK", "2s RESOURCE_EXHAUSTED: disk full"));
}

TEST(FaultyStoreTest, FailsTheNthCommit) {
  const auto memory = NewMemoryStore();
  FaultyStore faulty(*memory);
  faulty.FailCommit(2);
  EXPECT_TRUE(faulty.Commit({PlainJob("j", 1)}).ok());
  const absl::Status refused = faulty.Commit({PlainJob("k", 2)});
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(refused.message(), "commit of 1 records: fault injected, nothing stored");
  EXPECT_TRUE(faulty.Commit({PlainJob("l", 3)}).ok());
  EXPECT_EQ(faulty.Load()->jobs.size(), 2u);
  EXPECT_EQ(faulty.commits(), 2);
}

}  // namespace
}  // namespace stretto::coordinator

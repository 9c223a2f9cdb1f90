// SPDX-License-Identifier: Apache-2.0

// Real database files, damaged: a start is refused or finds exactly what was stored, and a repair
// keeps exactly the records that no damaged page is part of.

#include "coordinator/store/repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <map>
#include <random>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/coordinator/store/records.h"

namespace stretto::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kPage = 4096;

struct Content {
  std::map<std::string, JobRecord> jobs;
  std::map<std::string, WorkerRecord> workers;
  Epoch epoch;
  std::string cluster;
  bool operator==(const Content&) const = default;
};

Content Read(JobStore& store) {
  Content content;
  const auto snapshot = store.Load();
  EXPECT_TRUE(snapshot.ok()) << snapshot.status();
  if (!snapshot.ok()) return content;
  for (const JobRecord& job : snapshot->jobs) content.jobs[job.id] = job;
  for (const WorkerRecord& worker : snapshot->workers) content.workers[worker.id] = worker;
  content.epoch = snapshot->epoch.last;
  content.cluster = snapshot->cluster_id;
  return content;
}

// Its text is in every page that has a part of the record.
std::string Marker(const std::string& id) { return absl::StrCat("<", id, ">"); }

JobRecord MarkedJob(int number, int bytes) {
  JobRecord job = FullJob(absl::StrCat("job-", number), number);
  job.spec.clear();
  while (static_cast<int>(job.spec.size()) < bytes) job.spec += Marker(job.id);
  return job;
}

// A database of small jobs and of jobs with chains of overflow pages, some of which were changed
// and deleted; with a copy of its files as the last coordinator left them.
class RepairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = Open(path_);
    for (int i = 1; i <= 40; ++i) {
      ASSERT_TRUE(store->Commit({MarkedJob(i, i % 8 == 0 ? 15'000 : 300)}).ok());
      if (i % 4 == 0) {
        ASSERT_TRUE(store->Commit({FullWorker(absl::StrCat("w", i))}).ok());
      }
    }
    for (int i = 1; i <= 40; i += 3) ASSERT_TRUE(store->Commit({MarkedJob(i, 900)}).ok());
    for (int i = 2; i <= 40; i += 7) {
      ASSERT_TRUE(store->Commit({JobErased{absl::StrCat("job-", i)}}).ok());
    }
    // So many in a row that their pages become free.
    for (int i = 26; i <= 31; ++i) {
      ASSERT_TRUE(store->Commit({JobErased{absl::StrCat("job-", i)}}).ok());
    }
    ASSERT_TRUE(store->Commit({EpochRecord{Epoch(77)}}).ok());
    before_ = Read(*store);
    if (crashes_) {
      Write(path_ + ".copy-wal", *ReadFile(path_ + "-wal"));
      Write(path_ + ".copy", *ReadFile(path_));
    }
    store.reset();
    if (crashes_) {
      std::filesystem::rename(path_ + ".copy", path_);
      std::filesystem::rename(path_ + ".copy-wal", path_ + "-wal");
      log_ = *ReadFile(path_ + "-wal");
    }
    file_ = *ReadFile(path_);
  }

  // Ids whose records the page has a part of. Other pages than leaves of tables and their overflow
  // pages have no records.
  std::set<std::string> IdsIn(int64_t page) const {
    std::set<std::string> ids;
    const absl::string_view bytes = absl::string_view(file_).substr((page - 1) * kPage, kPage);
    if (page == 1 || bytes[0] == 2 || bytes[0] == 5 || bytes[0] == 10) return ids;
    for (const auto& [id, job] : before_.jobs) {
      if (absl::StrContains(bytes, Marker(id)) || absl::StrContains(bytes, job.uid)) ids.insert(id);
    }
    for (const auto& [id, worker] : before_.workers) {
      if (absl::StrContains(bytes, id)) ids.insert(id);
    }
    return ids;
  }

  // Starts on `damaged`, then repairs it. `pages` are those that differ from the file.
  void CheckDamage(const std::string& damaged, const std::set<int64_t>& pages) {
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      std::filesystem::remove(file.path());
    }
    Write(path_, damaged);
    {
      const auto store = OpenSqliteStore(path_);
      if (store.ok()) {
        EXPECT_EQ(Read(**store), before_);  // nothing that matters was damaged
        return;
      }
      EXPECT_TRUE(absl::IsDataLoss(store.status())) << store.status();
      EXPECT_THAT(std::string(store.status().message()), HasSubstr(path_));
      EXPECT_THAT(std::string(store.status().message()), HasSubstr("--repair"));
    }
    const auto report = RepairSqliteStore(path_);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->damage.empty());
    EXPECT_TRUE(std::filesystem::exists(report->aside)) << report->aside;
    std::set<std::string> may_be_lost;
    for (int64_t page : pages) may_be_lost.merge(IdsIn(page));
    const Content after = Read(*Open(path_));
    ExpectKept(before_.jobs, after.jobs, may_be_lost, report->lost_jobs, *report);
    ExpectKept(before_.workers, after.workers, may_be_lost, report->lost_workers, *report);
    EXPECT_EQ(report->kept_jobs.size(), after.jobs.size());
    EXPECT_EQ(report->kept_workers.size(), after.workers.size());
    EXPECT_EQ(after.cluster == before_.cluster, !report->lost_cluster_id);
    EXPECT_GT(after.epoch, before_.epoch);
  }

  template <class Records>
  static void ExpectKept(const Records& before, const Records& after,
                         const std::set<std::string>& may_be_lost,
                         const std::set<std::string>& lost, const RepairReport& report) {
    for (const auto& [id, record] : after) {
      const auto found = before.find(id);
      ASSERT_NE(found, before.end()) << id << " was deleted before";
      EXPECT_EQ(record, found->second) << id;
    }
    for (const auto& [id, record] : before) {
      if (after.contains(id)) {
        EXPECT_FALSE(lost.contains(id)) << id << " is kept";
        continue;
      }
      EXPECT_TRUE(may_be_lost.contains(id)) << id << " is on no damaged page";
      EXPECT_TRUE(lost.contains(id) || !report.names_known) << id << "'s loss is not reported";
    }
  }

  bool crashes_ = false;
  std::string folder_ = TestFolder();
  std::string path_ = folder_ + "coordinator.db";
  Content before_;
  std::string file_, log_;
};

TEST_F(RepairTest, FlippedBytesAreNeverACrashOrAWrongRecordAndCostOnlyTheRecordsOfTheirPage) {
  std::mt19937 random(16);
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    std::string damaged = file_;
    std::set<int64_t> pages;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      // Every fourth in the first bytes of a page, which matter most.
      size_t at = random() % damaged.size();
      if (random() % 4 == 0) at = at / kPage * kPage + random() % 110;
      damaged[at] ^= static_cast<char>(1 + random() % 255);
      pages.insert(static_cast<int64_t>(at / kPage) + 1);
    }
    SCOPED_TRACE(absl::StrCat("damage ", i, " in pages ", *pages.begin(), " to ", *pages.rbegin()));
    CheckDamage(damaged, pages);
  }
}

TEST_F(RepairTest, APageThatIsOverwrittenCostsOnlyItsRecords) {
  std::mt19937 random(17);
  const auto pages = static_cast<int64_t>(file_.size()) / kPage;
  for (int64_t page = 1; page <= pages && !HasFailure(); ++page) {
    SCOPED_TRACE(absl::StrCat("page ", page, " of ", pages));
    std::string damaged = file_;
    for (int i = 0; i < kPage; ++i) {
      damaged[(page - 1) * kPage + i] = page % 2 == 0 ? '\0' : static_cast<char>(random());
    }
    CheckDamage(damaged, {page});
  }
}

TEST_F(RepairTest, ATruncatedFileCostsOnlyTheRecordsOfItsEnd) {
  for (size_t size : {file_.size() / 2, file_.size() / 2 + 1000, file_.size() - 1, size_t{5000}}) {
    SCOPED_TRACE(size);
    std::set<int64_t> pages;
    for (size_t at = size / kPage * kPage; at < file_.size(); at += kPage) {
      pages.insert(static_cast<int64_t>(at / kPage) + 1);
    }
    if (size < 2 * kPage) continue;
    CheckDamage(file_.substr(0, size), pages);
  }
}

TEST_F(RepairTest, AWholeDatabaseIsLeftAsItIs) {
  const auto report = RepairSqliteStore(path_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->damage, "");
  EXPECT_FALSE(report->lost_any());
  EXPECT_TRUE(*ReadFile(path_) == file_);
  EXPECT_THAT(report->Text(), HasSubstr("is whole"));
}

TEST_F(RepairTest, NamesWhatIsKeptAndLostAndKeepsTheDamagedFile) {
  std::string damaged = file_;
  const size_t at = damaged.find(Marker("job-24"));
  damaged[at + 1] ^= 1;
  Write(path_, damaged);
  const absl::Status start = OpenSqliteStore(path_).status();
  EXPECT_TRUE(absl::IsDataLoss(start));
  EXPECT_THAT(std::string(start.message()), HasSubstr("of table jobs: found checksum "));
  const auto report = RepairSqliteStore(path_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->lost_jobs, ElementsAre("job-24"));
  EXPECT_THAT(report->lost_workers, IsEmpty());
  EXPECT_TRUE(report->names_known);
  EXPECT_TRUE(report->lost_any());
  EXPECT_EQ(report->aside, path_ + ".damaged-1");
  EXPECT_TRUE(*ReadFile(report->aside) == damaged);
  EXPECT_THAT(report->Text(), HasSubstr("\nlost 1 jobs and 0 workers\nlost jobs: \"job-24\"\n"));
  EXPECT_EQ(Read(*Open(path_)).epoch, Epoch(77 + 1'000'000));
}

TEST_F(RepairTest, ACrashWithinARepairLosesNothing) {
  std::string damaged = file_;
  damaged[damaged.find(Marker("job-24")) + 1] ^= 1;
  Write(path_, damaged);
  ASSERT_TRUE(RepairSqliteStore(path_).ok());
  const std::string repaired = *ReadFile(path_);
  const Content after = Read(*Open(path_));
  // Before the replacement is complete: neither, the log, or both of the damaged files are aside.
  for (int moved = 0; moved < 3; ++moved) {
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      std::filesystem::remove(file.path());
    }
    Write(path_ + ".repaired", repaired);
    Write(path_ + (moved > 1 ? ".damaged-1" : ""), damaged);
    Write(path_ + (moved > 0 ? ".damaged-1-wal" : "-wal"), "the log of the damaged database");
    EXPECT_EQ(Read(*Open(path_)), after) << moved;
    EXPECT_TRUE(*ReadFile(path_ + ".damaged-1") == damaged) << moved;
  }
}

TEST_F(RepairTest, OneThatOnlyCompletesAnInterruptedOneSaysThatRecordsMayBeLost) {
  std::string damaged = file_;
  damaged[damaged.find(Marker("job-24")) + 1] ^= 1;
  for (bool moved : {false, true}) {
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      std::filesystem::remove(file.path());
    }
    Write(path_ + ".repaired", file_);
    Write(path_ + (moved ? ".damaged-1" : ""), damaged);
    const auto report = RepairSqliteStore(path_);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->lost_any());
    EXPECT_EQ(report->Text(), absl::StrCat("completed a repair that was interrupted; what it lost "
                                           "is not known\nthe damaged database is now ",
                                           path_, ".damaged-1\n"));
    EXPECT_TRUE(*ReadFile(path_ + ".damaged-1") == damaged);
    EXPECT_TRUE(*ReadFile(path_) == file_);
  }
}

// While it lives, no new database has room for more than its first page; logs have.
class FullDisk {
 public:
  FullDisk() : vfs_(*system_) {
    vfs_.zName = "full";
    vfs_.xOpen = [](sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
      const int code = system_->xOpen(system_, name, file, flags, out);
      if (code != SQLITE_OK || (flags & SQLITE_OPEN_MAIN_DB) == 0 ||
          !absl::EndsWith(name, ".new")) {
        return code;
      }
      static sqlite3_io_methods methods;
      static auto write = file->pMethods->xWrite;
      methods = *file->pMethods;
      methods.xWrite = [](sqlite3_file* to, const void* data, int bytes, sqlite3_int64 at) {
        return at > 0 ? SQLITE_FULL : write(to, data, bytes, at);
      };
      file->pMethods = &methods;
      return code;
    };
    EXPECT_EQ(sqlite3_vfs_register(&vfs_, 1), SQLITE_OK);
  }
  ~FullDisk() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(system_, 1);
  }

 private:
  static inline sqlite3_vfs* const system_ = sqlite3_vfs_find(nullptr);
  sqlite3_vfs vfs_;
};

TEST_F(RepairTest, WithoutRoomForTheNewDatabaseNothingIsReplaced) {
  std::string damaged = file_;
  damaged[damaged.find(Marker("job-24")) + 1] ^= 1;
  Write(path_, damaged);
  {
    const FullDisk full;
    const auto report = RepairSqliteStore(path_);
    EXPECT_TRUE(absl::IsResourceExhausted(report.status())) << report.status();
    EXPECT_THAT(std::string(report.status().message()), HasSubstr(path_ + ".new-wal"));
    EXPECT_TRUE(*ReadFile(path_) == damaged);
    EXPECT_FALSE(std::filesystem::exists(path_ + ".repaired"));
  }
  const auto report = RepairSqliteStore(path_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->lost_jobs, ElementsAre("job-24"));
}

TEST_F(RepairTest, WithoutAnyWholeRecordNothingIsReplaced) {
  Write(path_, std::string(file_.size(), 'x'));
  const auto report = RepairSqliteStore(path_);
  EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("found no record that is whole"));
  EXPECT_TRUE(*ReadFile(path_) == std::string(file_.size(), 'x'));
}

TEST_F(RepairTest, AMissingDatabaseIsNotRepaired) {
  const auto report = RepairSqliteStore(folder_ + "other.db");
  EXPECT_TRUE(absl::IsNotFound(report.status())) << report.status();
}

TEST_F(RepairTest, OneOfAReleaseWithoutChecksumsIsRefused) {
  std::ifstream sql(STRETTO_SOURCE_DIR "/tests/golden/store/schema-1.sql");
  const std::string path = folder_ + "old.db";
  Execute(path, std::string((std::istreambuf_iterator<char>(sql)), {}));
  std::string damaged = *ReadFile(path);
  std::fill(damaged.begin() + kPage, damaged.begin() + kPage + 200, '\x5a');
  Write(path, damaged);
  const auto report = RepairSqliteStore(path);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kFailedPrecondition) << report.status();
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("schema version 1"));
  EXPECT_FALSE(std::filesystem::exists(path + ".damaged-1"));
}

// The files of a coordinator that was killed: most of what it stored is in the log.
class RepairAfterCrashTest : public RepairTest {
 protected:
  RepairAfterCrashTest() { crashes_ = true; }
};

TEST_F(RepairAfterCrashTest, ADamagedLogIsFoundAndWhatIsOlderIsNamed) {
  std::mt19937 random(18);
  ASSERT_GT(log_.size(), 100u * (kPage + 24));
  // Damage of the last transactions cannot be told from what a crash leaves.
  const size_t end = log_.size() - 16 * (kPage + 24);
  for (int i = 0; i < 30 && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      std::filesystem::remove(file.path());
    }
    std::string damaged = log_;
    const size_t at = i == 0 ? 5 : random() % end;
    damaged[at] ^= static_cast<char>(1 + random() % 255);
    Write(path_, file_);
    Write(path_ + "-wal", damaged);
    const absl::Status start = OpenSqliteStore(path_).status();
    ASSERT_TRUE(absl::IsDataLoss(start)) << start;
    EXPECT_THAT(std::string(start.message()), HasSubstr("-wal on are lost"));
    const auto report = RepairSqliteStore(path_);
    if (absl::IsDataLoss(report.status())) {
      EXPECT_LT(at, 40u * (kPage + 24));  // nothing was stored before that
      continue;
    }
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->lost_transactions);
    EXPECT_TRUE(*ReadFile(report->aside + "-wal") == damaged);
    const Content after = Read(*Open(path_));
    for (const auto& [id, job] : before_.jobs) {
      const auto found = after.jobs.find(id);
      if (found == after.jobs.end()) {
        EXPECT_TRUE(report->lost_jobs.contains(id)) << id;
      } else if (found->second != job) {
        EXPECT_TRUE(report->older.contains(id)) << id;
      }
    }
  }
}

TEST_F(RepairAfterCrashTest, ALogThatTheCrashInterruptedIsNoDamage) {
  for (size_t bytes : {1u, 3000u, 4120u, 4121u}) {
    Write(path_, file_);
    Write(path_ + "-wal", log_.substr(0, log_.size() - bytes));
    const auto store = OpenSqliteStore(path_);
    EXPECT_TRUE(store.ok()) << store.status();
  }
}

// Each begins where the one before it did, and leaves the end of those that are longer.
TEST_F(RepairAfterCrashTest, WhatTransactionsLeftThatCouldNotBeSyncedIsNoDamage) {
  std::string left;
  for (int bytes : {90'000, 50'000, 300}) {
    Write(path_, file_);
    Write(path_ + "-wal", log_);
    const auto store = Open(path_);
    ASSERT_TRUE(store->Commit({MarkedJob(50, bytes)}).ok());
    const std::string log = *ReadFile(path_ + "-wal");
    ASSERT_GT(log.size(), log_.size());
    ASSERT_EQ(log.compare(0, log_.size(), log_), 0);
    ASSERT_TRUE(left.empty() || log.size() + kPage < left.size());
    left.replace(0, log.size(), log);
  }
  Write(path_, file_);
  Write(path_ + "-wal", left);
  const auto store = OpenSqliteStore(path_);
  ASSERT_TRUE(store.ok()) << store.status();
  Content expected = before_;
  expected.jobs["job-50"] = MarkedJob(50, 300);
  EXPECT_EQ(Read(**store), expected);
}

TEST_F(RepairAfterCrashTest, ARepairAppliesTheLog) {
  std::string damaged = file_;
  if (damaged.size() < 2 * kPage) damaged.resize(2 * kPage);
  std::fill(damaged.begin(), damaged.begin() + 100, '\x5a');
  Write(path_, damaged);
  const auto store = OpenSqliteStore(path_);  // the log has that page too
  if (store.ok()) {
    EXPECT_EQ(Read(**store), before_);
  } else {
    ASSERT_TRUE(RepairSqliteStore(path_).ok());
    const Content after = Read(*Open(path_));
    EXPECT_EQ(after.jobs, before_.jobs);
    EXPECT_EQ(after.workers, before_.workers);
  }
}

}  // namespace
}  // namespace stretto::coordinator

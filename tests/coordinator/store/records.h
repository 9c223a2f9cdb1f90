// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records and files for the tests of stores.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/schema.h"
#include "coordinator/store/sqlite_database.h"

namespace stretto::coordinator {

inline const absl::Time kTime = absl::FromUnixNanos(1'700'000'000'123'456'789);

// Every field differs from its default.
inline JobRecord FullJob(const std::string& id, int64_t number) {
  JobRecord job;
  job.id = id;
  job.uid = "uid-" + id;
  job.spec = std::string("\x00\xff binary", 9);
  job.gang = {.stages = {{.blocks = 2, .size = 4}, {.blocks = 1, .size = 2}}, .split_blocks = true};
  job.fallbacks = {{.stages = {{.blocks = 3, .size = 2}}, .split_blocks = true}};
  job.layout = 1;
  job.priority = -3;
  job.project = "speech";
  job.labels = {{"team", "speech"}, {"sweep", ""}};
  job.saves = false;
  job.preempted_by = "another";
  job.events.Set({{7, absl::FromUnixSeconds(5), JobState::kRunning, "Saved", "s1", "uri:ann", 3}});
  job.device_kind = 1;
  job.total_steps = 1000;
  job.request_id = "request-" + id;
  job.fingerprint = std::string("\xfe\x00", 2);
  job.number = number;
  job.state = JobState::kFailed;
  job.conditions = {{"Scheduled", ConditionStatus::kTrue, "Placed", "2 ranks on \"a\"\n", kTime},
                    {"Succeeded", ConditionStatus::kFalse, "Killed", "", kTime}};
  job.create_time = kTime;
  job.start_time = kTime + absl::Seconds(1);
  job.end_time = kTime + absl::Seconds(2);
  job.retire_time = kTime + absl::Hours(2);
  job.attempt = 1;
  job.epoch = Epoch(7);
  job.ranks = {{"a", 3, RankState::kExited, 4, 9, "Killed", 12},
               {"b", 0, RankState::kLost, 0, 0, "", 11}};
  job.restart = {.max = 3,
                 .backoff = absl::Milliseconds(1500),
                 .on = {RestartCause::kCrash, RestartCause::kHang}};
  job.restarts = 2;
  job.next_attempt_time = kTime + absl::Seconds(3);
  job.suspend_time = kTime + absl::Seconds(4);
  job.paused = absl::Seconds(5);
  job.stop_reason = "Killed";
  job.stop_with_checkpoint = true;
  job.first_failure = {.rank = 0,
                       .worker = "a",
                       .exit_code = 4,
                       .signal = 9,
                       .reason = "Killed",
                       .message = "killed",
                       .step = 12,
                       .phase = "forward",
                       .last_operation = "18 comm.tp all_reduce",
                       .time = kTime};
  job.suspect = job.first_failure;
  job.suspect->rank = 1;
  job.attempts = {{.number = 1,
                   .epoch = Epoch(6),
                   .workers = {"a", "b"},
                   .start_time = kTime,
                   .end_time = kTime + absl::Seconds(1),
                   .from_step = 4,
                   .saved_step = 8,
                   .steps = 9,
                   .cause = RestartCause::kNodeLoss,
                   .first_failure = job.first_failure},
                  {.number = 2,
                   .epoch = Epoch(7),
                   .workers = {},
                   .start_time = kTime,
                   .end_time = {},
                   .first_failure = {}}};
  job.last_checkpoint = "step-00000010";
  job.best_checkpoint = "step-00000005";
  job.last_checkpoint_step = 10;
  job.checkpoint_request = 4;
  job.submit_to_first_operation = absl::Nanoseconds(1234567);
  job.submit_to_first_step = absl::Seconds(2);
  job.summary = std::string("\x0a\x00\x80", 3);
  return job;
}

inline JobRecord PlainJob(const std::string& id, int64_t number) {
  JobRecord job;
  job.id = id;
  job.uid = "uid-" + id;
  job.number = number;
  job.create_time = kTime;
  return job;
}

inline WorkerRecord FullWorker(const std::string& id) {
  return {.id = id,
          .incarnation = "i",
          .host = "h",
          .build = "b",
          .devices = {{.slot = 1,
                       .kind = 1,
                       .description = "cpu core 1",
                       .memory_bytes = 1 << 30,
                       .fault = "Xid 79"}},
          .state = WorkerState::kReady,
          .register_time = kTime,
          .cordon = "quarantined",
          .faults = {kTime, kTime + absl::Seconds(1)}};
}

inline std::string TestFolder() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = absl::StrCat(test->test_suite_name(), ".", test->name());
  for (char& c : name) c = c == '/' ? '_' : c;
  const std::string folder = absl::StrCat(::testing::TempDir(), "stretto-store-", name, "/");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

inline std::unique_ptr<JobStore> Open(const std::string& path, const SqliteOptions& options = {}) {
  auto store = OpenSqliteStore(path, options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

inline void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Runs statements on a database that nobody has open.
inline void Execute(const std::string& path, const std::string& sql) {
  const auto database = SqliteDatabase::Open(path);
  ASSERT_TRUE(database.ok()) << database.status();
  const absl::Status done = (*database)->Run(sql);
  ASSERT_TRUE(done.ok()) << done;
}

// The same, as a release does it that may know other values: records keep right checksums.
inline void ExecuteAsARelease(const std::string& path, std::string sql) {
  for (const StoredTable& table : kTables) {
    absl::StrAppend(&sql, "; UPDATE ", table.name, " SET checksum = record_checksum('", table.name,
                    "', ", table.columns, ")");
  }
  Execute(path, sql);
}

}  // namespace stretto::coordinator

// SPDX-License-Identifier: Apache-2.0

// The audit log: its lines, its files, and what happens when a line cannot be written.

#include "coordinator/telemetry/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/files.h"
#include "proto/base/printable.h"

namespace stretto::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLine[] =
    "2027-01-15T08:00:00.000Z caller=spiffe://t/stretto/user/ann peer=ipv4:10.0.0.7:51234 "
    "method=CancelJob resource=jobs/gpt request_id=- result=OK\n";

AuditEntry SomeEntry() {
  return {.caller = "spiffe://t/stretto/user/ann",
          .peer = "ipv4:10.0.0.7:51234",
          .method = "CancelJob",
          .resource = "jobs/gpt",
          .request_id = "",
          .result = "OK"};
}

// Lets no file of this process become longer, as a full disk does.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int) = SIG_DFL;
};

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() {
    std::string name = (std::filesystem::temp_directory_path() / "stretto-audit-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ + "/audit.log";
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log_)));
  }
  ~AuditLogTest() override {
    spdlog::set_default_logger(before_);
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<AuditLog> Open(const std::string& path, int64_t max_bytes = 1 << 20) {
    auto log = AuditLog::Open(path, max_bytes, telemetry_);
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  std::string Content(const std::string& suffix = "") const {
    auto content = ReadFile(path_ + suffix);
    EXPECT_TRUE(content.ok()) << content.status();
    return content.value_or("");
  }
  std::string Lost() const {
    for (const absl::string_view line : absl::StrSplit(telemetry_.Text(), '\n')) {
      if (absl::StartsWith(line, "stretto_audit_lines_lost_total ")) return std::string(line);
    }
    return "";
  }

  std::string folder_, path_;
  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
  Telemetry telemetry_;
};

TEST_F(AuditLogTest, ALineIsInTheFileBeforeTheCallIsAnswered) {
  const auto log = Open(path_);
  EXPECT_EQ(Content(), "") << "the file is there from the start";
  log->Write(SomeEntry(), now_);
  EXPECT_EQ(Content(), kLine);
  log->Write(SomeEntry(), now_);
  EXPECT_EQ(Content(), absl::StrCat(kLine, kLine));
  struct stat found = {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0600u);
  // Another process appends.
  Open(path_)->Write(SomeEntry(), now_);
  EXPECT_EQ(Content(), absl::StrCat(kLine, kLine, kLine));
}

TEST_F(AuditLogTest, NoValueCanForgeAFieldOrALine) {
  const auto log = Open(path_);
  AuditEntry entry = SomeEntry();
  entry.resource = "jobs/x result=OK\n2027 caller=root\x1b[2J\xe2\x80\xae";
  entry.request_id = "a\\\" result=OK";
  entry.caller = std::string(1000, 'c');
  log->Write(entry, now_);
  const std::string line = Content();
  EXPECT_THAT(line, HasSubstr(" resource=\"jobs/x result=OK\\n2027 caller=root\\x1b[2J\\u202e\" "));
  EXPECT_THAT(line, HasSubstr(" request_id=\"a\\\\x22 result=OK\" result=OK\n"));
  EXPECT_THAT(line, HasSubstr(absl::StrCat(" caller=", std::string(256, 'c'), " peer=")));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(std::count(line.begin(), line.end(), '"'), 4);
  EXPECT_TRUE(IsPrintable(line.substr(0, line.size() - 1)));
}

TEST_F(AuditLogTest, ANewFileBeginsAtTheBoundAndFourOlderOnesAreKept) {
  const auto log = Open(path_, std::string(kLine).size() + 1);
  for (int i = 0; i < 7; ++i) {
    AuditEntry entry = SomeEntry();
    entry.resource = absl::StrCat("jobs/a", i, "b");  // "jobs/gpt" is as long
    log->Write(entry, now_);
  }
  EXPECT_THAT(Content(), HasSubstr("jobs/a6b"));
  for (int older = 1; older <= AuditLog::kOlder; ++older) {
    EXPECT_THAT(Content(absl::StrCat(".", older)), HasSubstr(absl::StrCat("jobs/a", 6 - older)));
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".5"));
  // A line that is longer than the bound still has a file.
  AuditEntry entry = SomeEntry();
  entry.resource = std::string(200, 'x');
  log->Write(entry, now_);
  EXPECT_THAT(Content(), HasSubstr(entry.resource));
}

// Mallory may change nothing; what he tries a million times does not rotate out what others did.
TEST_F(AuditLogTest, AFloodOfRefusedCallsLeavesRoomForOthers) {
  const auto log = Open(path_, 100'000);
  log->Write(SomeEntry(), now_);
  AuditEntry refused = SomeEntry();
  refused.caller = "mallory";
  refused.result = "PERMISSION_DENIED";
  constexpr absl::Duration kStart = absl::Hours(1);
  for (int i = 0; i < 100'000; ++i) {
    log->WriteRefused(refused, now_, kStart + i * absl::Microseconds(100));  // 10 s
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".1"));
  std::string content = Content();
  EXPECT_TRUE(absl::StartsWith(content, kLine));
  // Nine seconds have passed at the last call but one.
  const auto lines = std::count(content.begin(), content.end(), '\n');
  EXPECT_EQ(lines, 1 + limits::kAuditRefused.value + 9);
  EXPECT_THAT(content, HasSubstr("result=PERMISSION_DENIED left_out=9900\n"));
  // Another caller has room, and the rest is counted although he comes no more.
  refused.caller = "ann";
  log->WriteRefused(refused, now_, kStart + absl::Seconds(10));
  log->WriteLeftOut(now_, kStart + absl::Seconds(11));
  log->WriteLeftOut(now_, kStart + absl::Seconds(12));
  content = Content().substr(content.size());
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(content, '\n')),
              ElementsAre(HasSubstr(" caller=ann "),
                          HasSubstr(" caller=mallory peer=- method=- resource=- request_id=- "
                                    "result=- left_out="),
                          ""));
}

TEST_F(AuditLogTest, AFileThatCannotBeRenamedGrowsFurther) {
  ASSERT_TRUE(std::filesystem::create_directories(path_ + ".4/full"));
  ASSERT_TRUE(WriteFileAtomic(path_ + ".3", "").ok());
  const auto log = Open(path_, 100);
  log->Write(SomeEntry(), now_);
  log->Write(SomeEntry(), now_);
  EXPECT_EQ(Content(), absl::StrCat(kLine, kLine));
  EXPECT_THAT(log_.str(), HasSubstr("audit log not rotated: "));
  EXPECT_THAT(log_.str(), HasSubstr(absl::StrCat("rename ", path_, ".3 to ", path_, ".4")));
}

TEST_F(AuditLogTest, AFileThatSomebodyElseRenamesIsLeftAlone) {
  const auto log = Open(path_);
  log->Write(SomeEntry(), now_);
  std::filesystem::rename(path_, path_ + ".old");
  log->Write(SomeEntry(), now_);
  EXPECT_EQ(Content(), kLine);
  EXPECT_EQ(Content(".old"), kLine);
}

TEST_F(AuditLogTest, OnAFullDiskLinesAreInTheDaemonsLogAndCountedAndTheGapIsShown) {
  const auto log = Open(path_);
  log->Write(SomeEntry(), now_);
  {
    const FullDisk full(std::string(kLine).size() + 20);
    log->Write(SomeEntry(), now_);
    log->Write(SomeEntry(), now_);
  }
  EXPECT_EQ(Content(), kLine) << "not even a part of a line is left";
  EXPECT_EQ(Lost(), "stretto_audit_lines_lost_total 2");
  EXPECT_THAT(log_.str(),
              HasSubstr(absl::StrCat("audit line not written: RESOURCE_EXHAUSTED: write ", path_,
                                     ": File too large; it is: ", kLine)));
  log->Write(SomeEntry(), now_);
  log->Write(SomeEntry(), now_);
  EXPECT_EQ(Content(),
            absl::StrCat(kLine,
                         "2027-01-15T08:00:00.000Z missing=2: lines that could not be written are "
                         "in the daemon's log\n",
                         kLine, kLine));
}

TEST_F(AuditLogTest, ADeviceIsNeitherRenamedNorAnObstacle) {
  const auto log = Open("/dev/full", 1);
  log->Write(SomeEntry(), now_);
  log->Write(SomeEntry(), now_);
  EXPECT_EQ(Lost(), "stretto_audit_lines_lost_total 2");
  EXPECT_THAT(log_.str(), HasSubstr("RESOURCE_EXHAUSTED: write /dev/full: No space left"));
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
}

TEST_F(AuditLogTest, AFileThatCannotBeOpenedIsRefusedAtTheStart) {
  const std::string nowhere = folder_ + "/nowhere/audit.log";
  const auto log = AuditLog::Open(nowhere, 100, telemetry_);
  EXPECT_TRUE(absl::IsNotFound(log.status())) << log.status();
  EXPECT_THAT(std::string(log.status().message()), HasSubstr(nowhere));
}

TEST_F(AuditLogTest, WithoutAPathNothingIsKept) {
  const auto log = Open("");
  log->Write(SomeEntry(), now_);
  EXPECT_EQ(Lost(), "stretto_audit_lines_lost_total 0");
  EXPECT_EQ(log_.str(), "");
}

}  // namespace
}  // namespace stretto::telemetry

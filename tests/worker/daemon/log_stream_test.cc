// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/log_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/beneath.h"
#include "tests/worker/daemon/temp_dir.h"
#include "worker/daemon/log_bound.h"
#include "worker/report/trace_log.h"

namespace stretto::daemon {
namespace {

using stretto::v1alpha1::Assign;
using stretto::v1alpha1::LogData;
using stretto::v1alpha1::LogRequest;

class LogStreamTest : public ::testing::Test {
 protected:
  LogStreamTest() {
    Assign assign;
    assign.set_job_id("gpt");
    assign.set_job_uid("0123456789abcdef");
    assign.set_epoch(1);
    assign.add_ranks();
    path_ = folders_.Create(assign, 0)->log();
    streams_.emplace(
        folders_,
        [this](const RankKey&) {
          std::call_once(first_, [this] { asked_.set_value(); });
          return alive_.load();
        },
        [this] {
          const std::lock_guard lock(mu_);
          woken_ = true;
          ++wakes_;
          changed_.notify_all();
        });
  }

  void Write(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }

  void Request(bool follow, int64_t stream = 1) {
    LogRequest request;
    request.set_stream(stream);
    request.set_job_uid("0123456789abcdef");
    request.set_epoch(1);
    request.set_follow(follow);
    streams_->Request(request);
  }

  LogData Take() {
    while (true) {
      if (std::optional<LogData> data = streams_->Next()) return *data;
      std::unique_lock lock(mu_);
      if (!changed_.wait_for(lock, std::chrono::seconds(20), [this] { return woken_; })) {
        ADD_FAILURE() << "no chunk";
        return {};
      }
      woken_ = false;
    }
  }

  // Until the reader has made that number of chunks.
  void WaitForChunks(int chunks) {
    std::unique_lock lock(mu_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return wakes_ >= chunks; }));
  }

  TempDir dir_;
  RunFolders folders_{dir_.path()};
  std::string path_;
  std::atomic<bool> alive_{true};
  std::once_flag first_;
  std::promise<void> asked_;  // whether a rank is alive, for the first time
  std::mutex mu_;
  std::condition_variable changed_;
  bool woken_ = false;
  int wakes_ = 0;
  std::optional<LogStreams> streams_;
};

// Whoever follows a log sees its begin, a line about what was dropped, and its end in whole lines.
TEST_F(LogStreamTest, ALogThatIsBoundedIsFollowedOverWhatWasDropped) {
  constexpr int64_t kMost = 256 << 10;
  const auto blocks = [this] {
    struct stat info = {};
    EXPECT_EQ(::stat(path_.c_str(), &info), 0);
    return info.st_blocks * 512;
  };
  Write("the first line\n");
  EXPECT_EQ(*BoundLog(path_, kMost), 0);
  std::string lines;
  for (int i = 0; i < 100'000; ++i) absl::StrAppend(&lines, "line ", i, "\n");
  Write(lines);
  const absl::StatusOr<int64_t> dropped = BoundLog(path_, kMost);
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_GT(*dropped, 0);
  EXPECT_LE(blocks(), kMost);
  EXPECT_EQ(*BoundLog(path_, kMost), 0) << "there is room again";

  Request(true);
  std::string seen;
  while (!absl::EndsWith(seen, "\nline 99999\n")) seen += Take().data();
  EXPECT_TRUE(absl::StartsWith(seen, "the first line\nline 0\nline 1\n"));
  EXPECT_LT(static_cast<int64_t>(seen.size()), kMost);
  const std::vector<std::string> parts = absl::StrSplit(seen, "--- ");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(parts[0], testing::EndsWith("\n"));
  EXPECT_THAT(parts[1], testing::HasSubstr(" bytes of this log were dropped here"));
  const std::vector<std::string> after = absl::StrSplit(parts[1], '\n');
  EXPECT_TRUE(absl::StartsWith(after[1], "line ")) << "no part of a line: " << after[1];

  Write("the last line\n");  // is where a reader expects it
  EXPECT_EQ(Take().data(), "the last line\n");
  alive_ = false;
  while (!Take().end()) {
  }
  LogRequest newest;
  newest.set_stream(2);
  newest.set_job_uid("0123456789abcdef");
  newest.set_epoch(1);
  newest.mutable_selection()->set_tail_lines(2);
  streams_->Request(newest);
  EXPECT_EQ(Take().data(), "line 99999\nthe last line\n");
}

TEST_F(LogStreamTest, ChunksAreWholeLinesOfAtMost64KiB) {
  const std::string line(1000, 'x');
  std::string all;
  for (int i = 0; i < 1500; ++i) all += line + "\n";  // more than eight chunks
  Write(all + "no newline");
  Request(false);
  std::string got;
  while (true) {
    const LogData data = Take();
    EXPECT_LE(data.data().size(), kLogChunkBytes);
    got += data.data();
    if (data.end()) break;
    EXPECT_EQ(data.data().back(), '\n');
  }
  EXPECT_EQ(got, all + "no newline");
}

TEST_F(LogStreamTest, ALineLongerThanAChunkIsCut) {
  const std::string line(kLogChunkBytes + 10, 'y');
  Write(line + "\n");
  Request(false);
  EXPECT_EQ(Take().data().size(), kLogChunkBytes);
  EXPECT_EQ(Take().data(), std::string(10, 'y') + "\n");
  EXPECT_TRUE(Take().end());
}

TEST_F(LogStreamTest, FollowsUntilTheRankHasEnded) {
  Write("one\n");
  Request(true);
  EXPECT_EQ(Take().data(), "one\n");
  Write("tw");
  Write("o\n");
  EXPECT_EQ(Take().data(), "two\n");
  Write("last words");
  alive_ = false;
  std::string rest;
  for (LogData data; !data.end(); rest += data.data()) data = Take();
  EXPECT_EQ(rest, "last words");
}

// A trainer may put links into its folder, and a pipe that nobody writes to.
TEST_F(LogStreamTest, NothingButTheLogItselfIsRead) {
  Confine(folders_.root(), Links::kNone);
  std::ofstream(dir_.path() + "/key") << "secret\n";
  std::filesystem::create_symlink(dir_.path() + "/key", path_);
  Request(false);
  LogData data = Take();
  EXPECT_TRUE(data.end());
  EXPECT_EQ(data.data(), "");
  EXPECT_NE(data.error().find("found a symbolic link, expected none"), std::string::npos)
      << data.error();
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  Request(false, 2);
  data = Take();
  EXPECT_NE(data.error().find("expected a regular file"), std::string::npos) << data.error();
}

TEST_F(LogStreamTest, CancelAndResetEndStreams) {
  Write("one\n");
  Request(true);
  EXPECT_EQ(Take().data(), "one\n");
  LogRequest cancel;
  cancel.set_stream(1);
  cancel.set_cancel(true);
  streams_->Request(cancel);
  Request(true, 2);
  streams_->Reset();
  EXPECT_FALSE(streams_->Next().has_value());
}

TEST_F(LogStreamTest, StreamsTakeTurnsWhenTheWireIsSlow) {
  const std::string line(1000, 'x');
  std::string all;
  for (int i = 0; i < 3000; ++i) all += line + "\n";  // some 46 chunks each
  Write(all);
  Request(false, 1);
  Request(false, 2);
  WaitForChunks(8);  // as many as may wait
  int of_second = 0;
  for (int chunk = 1; chunk <= 16; ++chunk) {
    const int64_t stream = Take().stream();
    if (chunk > 8) of_second += stream == 2 ? 1 : 0;
    WaitForChunks(8 + chunk);  // there was room for one
  }
  EXPECT_EQ(of_second, 4);
}

// The heartbeats of the session's thread must not wait for a disk.
TEST_F(LogStreamTest, ADiskThatStandsStillHoldsUpNobodyElse) {
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const FileDescriptor writer(::open(path_.c_str(), O_RDWR));  // reading waits until it writes
  Request(true);
  asked_.get_future().wait();  // the reader thread continues to read
  std::future<bool> served = std::async(std::launch::async, [this] {
    LogRequest other;
    other.set_stream(2);
    streams_->Request(other);
    return !streams_->Next().has_value();
  });
  EXPECT_EQ(served.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  ASSERT_EQ(::write(writer.get(), "late\n", 5), 5);
  EXPECT_TRUE(served.get());
  EXPECT_EQ(Take().data(), "late\n");
}

class SelectedLogTest : public LogStreamTest {
 protected:
  // Returns everything that a stream has.
  std::string Read(LogRequest request) {
    request.set_stream(++stream_);
    request.set_job_uid("0123456789abcdef");
    request.set_epoch(1);
    streams_->Request(request);
    std::string text;
    for (LogData data; !data.end(); text += data.data()) {
      data = Take();
      EXPECT_EQ(data.error(), "");
      end_ = data.end_offset();
    }
    return text;
  }
  int64_t stream_ = 0;
  int64_t end_ = 0;  // of the last chunk
};

TEST_F(SelectedLogTest, TheNewestLinesAreFoundInALogOfManyChunks) {
  std::string all;
  for (int i = 1; i <= 20'000; ++i) all += absl::StrCat("line ", i, "\n");
  Write(all);
  LogRequest request;
  request.mutable_selection()->set_tail_lines(2);
  EXPECT_EQ(Read(request), "line 19999\nline 20000\n");
  EXPECT_EQ(end_, static_cast<int64_t>(all.size()));
  request.mutable_selection()->set_tail_lines(0);
  EXPECT_EQ(Read(request), "");
  request.mutable_selection()->set_tail_lines(30'000);
  EXPECT_EQ(Read(request), all);
  Write("unfinished");
  request.mutable_selection()->set_tail_lines(2);
  EXPECT_EQ(Read(request), "line 20000\nunfinished");
  request.mutable_selection()->set_grep("^line .*77$");
  EXPECT_EQ(Read(request), "line 19877\nline 19977\n");
  request.mutable_selection()->clear_tail_lines();
  EXPECT_EQ(Read(request).size(), 2'089u);
}

TEST_F(SelectedLogTest, AReaderContinuesWhereItHasStopped) {
  Write("one\ntwo\n");
  EXPECT_EQ(Read({}), "one\ntwo\n");
  LogRequest request;
  request.set_offset(end_);
  EXPECT_EQ(Read(request), "");
  Write("three\n");
  EXPECT_EQ(Read(request), "three\n");
  request.set_offset(1'000'000);
  EXPECT_EQ(Read(request), "");
}

TEST_F(SelectedLogTest, TheNewestLineIsFollowedByThoseThatCome) {
  Write("one\ntwo\nthree\nfou");
  LogRequest request;
  request.set_stream(1);
  request.set_job_uid("0123456789abcdef");
  request.set_epoch(1);
  request.set_follow(true);
  request.mutable_selection()->set_tail_lines(2);
  streams_->Request(request);
  EXPECT_EQ(Take().data(), "three\n");
  Write("r\n");
  EXPECT_EQ(Take().data(), "four\n");
}

TEST_F(SelectedLogTest, AnExpressionThatDoesNotCompileIsAnAnswer) {
  Write("one\n");
  LogRequest request;
  request.set_stream(1);
  request.set_job_uid("0123456789abcdef");
  request.set_epoch(1);
  request.mutable_selection()->set_grep("(");
  streams_->Request(request);
  const LogData data = Take();
  EXPECT_TRUE(data.end());
  EXPECT_THAT(data.error(), ::testing::StartsWith("grep: found \"(\""));
}

class TraceStreamTest : public LogStreamTest {
 protected:
  // Steps 1 to `steps` of the rank.
  void Record(int64_t steps) {
    v1alpha1::TraceRecord record;
    record.mutable_program()->set_machine("box");
    auto log = TraceLog::Create(std::filesystem::path(path_).parent_path(), {record});
    for (int64_t step = 1; step <= steps; ++step) {
      record.mutable_step()->set_step(step);
      log->Add(record);
      ASSERT_TRUE(log->Commit().ok());
    }
  }

  void Ask(int64_t first_step, int64_t last_step, int32_t credit) {
    LogRequest request;
    request.set_stream(1);
    request.set_job_uid("0123456789abcdef");
    request.set_epoch(1);
    request.mutable_trace()->set_first_step(first_step);
    request.mutable_trace()->set_last_step(last_step);
    request.set_credit(credit);
    streams_->Request(request);
  }
  void Give(int32_t credit) {
    LogRequest request;
    request.set_stream(1);
    request.set_credit(credit);
    streams_->Request(request);
  }
};

TEST_F(TraceStreamTest, SendsNoMoreRecordsThanItHasCreditFor) {
  Record(5);
  Ask(2, 4, 2);
  EXPECT_EQ(Take().record().program().machine(), "box");
  EXPECT_EQ(Take().record().step().step(), 2);
  // A log is served meanwhile: the reader has been round, and made nothing of the trace.
  Write("one\n");
  Request(false, 2);
  EXPECT_EQ(Take().stream(), 2);
  EXPECT_EQ(Take().stream(), 2);
  EXPECT_FALSE(streams_->Next().has_value());
  Give(1);
  EXPECT_EQ(Take().record().step().step(), 3);
  Give(5);
  EXPECT_EQ(Take().record().step().step(), 4);
  const LogData end = Take();
  EXPECT_TRUE(end.end());
  EXPECT_FALSE(end.has_record());
  EXPECT_EQ(end.error(), "");
  Give(1);  // late: the stream is no more
  EXPECT_FALSE(streams_->Next().has_value());
}

TEST_F(TraceStreamTest, StepsThatAreNotKeptAreAnErrorThatNamesThoseThatAre) {
  Record(5);
  Ask(9, 12, 16);
  EXPECT_TRUE(Take().has_record());
  const LogData end = Take();
  EXPECT_TRUE(end.end());
  EXPECT_EQ(end.error(), "found steps 1 to 5 kept, expected some of 9 to 12");
}

// The coordinator could not take it, and would end the session of the whole node.
TEST_F(TraceStreamTest, ARecordThatIsTooLongEndsItsStreamAlone) {
  v1alpha1::TraceRecord program, step;
  for (int i = 0; i < 5; ++i) program.mutable_program()->add_lanes(std::string(1 << 20, 'x'));
  step.mutable_step()->set_step(1);
  auto log = TraceLog::Create(std::filesystem::path(path_).parent_path(), {program});
  log->Add(step);
  ASSERT_TRUE(log->Commit().ok());
  Ask(0, 0, 16);
  const LogData end = Take();
  EXPECT_TRUE(end.end());
  EXPECT_FALSE(end.has_record());
  EXPECT_THAT(end.error(),
              ::testing::MatchesRegex("found a record of [0-9]+ bytes, expected at most 4128768"));
}

TEST_F(TraceStreamTest, ARankThatRecordedNothingIsAnError) {
  Ask(0, 0, 16);
  const LogData end = Take();
  EXPECT_TRUE(end.end());
  EXPECT_EQ(end.error(), "no step is recorded yet");
}

TEST_F(LogStreamTest, UnknownRankIsAnError) {
  LogRequest request;
  request.set_stream(3);
  request.set_job_uid("ffffffffffffffff");
  request.set_epoch(2);
  streams_->Request(request);
  const LogData data = Take();
  EXPECT_TRUE(data.end());
  EXPECT_EQ(data.error(), "this node has no log of rank 0 of job uid ffffffffffffffff epoch 2");
  request.mutable_trace();
  streams_->Request(request);
  EXPECT_EQ(Take().error(), "this node has no trace of rank 0 of job uid ffffffffffffffff epoch 2");
}

}  // namespace
}  // namespace stretto::daemon

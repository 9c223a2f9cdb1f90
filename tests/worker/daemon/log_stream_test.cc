#include "worker/daemon/log_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>

#include "tests/worker/daemon/temp_dir.h"

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
        folders_, [this](const RankKey&) { return alive_.load(); },
        [this] {
          const std::lock_guard lock(mu_);
          woken_ = true;
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

  TempDir dir_;
  RunFolders folders_{dir_.path()};
  std::string path_;
  std::atomic<bool> alive_{true};
  std::mutex mu_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::optional<LogStreams> streams_;
};

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

TEST_F(LogStreamTest, UnknownRankIsAnError) {
  LogRequest request;
  request.set_stream(3);
  request.set_job_uid("ffffffffffffffff");
  request.set_epoch(2);
  streams_->Request(request);
  const LogData data = Take();
  EXPECT_TRUE(data.end());
  EXPECT_EQ(data.error(), "this node has no log of rank 0 of job uid ffffffffffffffff epoch 2");
}

}  // namespace
}  // namespace stretto::daemon

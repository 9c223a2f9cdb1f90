// SPDX-License-Identifier: Apache-2.0

// The link against a daemon in this process that only reads.

#include "worker/trainer/link/daemon_link.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "stretto/v1alpha1/trainer.grpc.pb.h"
#include "tests/worker/daemon/temp_dir.h"

namespace stretto::trainer {
namespace {

using ::testing::ElementsAre;

class FakeDaemon final : public v1alpha1::TrainerService::Service {
 public:
  explicit FakeDaemon(const std::string& socket) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  // From now on, messages are not read.
  void StopReading() { reading_ = false; }
  void ReadAgain() {
    reading_ = true;
    changed_.notify_all();
  }

  // Asks the trainer whose stream is open for a checkpoint, or on the next one.
  void AskToSave(int64_t request) {
    const std::lock_guard lock(mu_);
    save_.mutable_save()->set_request(request);
    if (stream_ != nullptr) stream_->Write(save_);
  }

  // Waits, up to 20 s, for `count` messages and returns them: "hello" or the report's sequence.
  std::vector<std::string> WaitFor(size_t count) {
    std::unique_lock lock(mu_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return messages_.size() >= count; });
    return messages_;
  }

 private:
  using Stream = grpc::ServerReaderWriter<v1alpha1::DaemonMessage, v1alpha1::TrainerMessage>;

  grpc::Status Reports(grpc::ServerContext*, Stream* stream) override {
    {
      const std::lock_guard lock(mu_);
      stream_ = stream;
      if (save_.has_save()) stream->Write(save_);
    }
    v1alpha1::TrainerMessage message;
    while (true) {
      {
        std::unique_lock lock(mu_);
        changed_.wait(lock, [&] { return reading_.load(); });
      }
      if (!stream->Read(&message)) break;
      const std::lock_guard lock(mu_);
      messages_.push_back(message.has_hello() ? "hello"
                                              : std::to_string(message.report().sequence()));
      changed_.notify_all();
    }
    const std::lock_guard lock(mu_);
    stream_ = nullptr;
    return grpc::Status::OK;
  }

  std::mutex mu_;
  Stream* stream_ = nullptr;
  v1alpha1::DaemonMessage save_;
  std::condition_variable changed_;
  std::vector<std::string> messages_;
  std::atomic<bool> reading_{true};
  std::unique_ptr<grpc::Server> server_;  // last, so that it ends first
};

v1alpha1::RankReport Report(int64_t sequence) {
  v1alpha1::RankReport report;
  report.set_sequence(sequence);
  return report;
}

// The daemon may have read the log between the reports and the stream, so it would not learn of
// them before the next one.
TEST(DaemonLinkTest, NewestReportBeforeTheStreamIsSentOnIt) {
  const daemon::TempDir dir;
  FakeDaemon daemon(dir.path() + "/trainer.sock");
  DaemonLink link(dir.path() + "/trainer.sock", "0123456789abcdef0123456789abcdef", 1, 0);
  link.Send(Report(1));
  link.Send(Report(2));
  link.Start();
  EXPECT_THAT(daemon.WaitFor(2), ElementsAre("hello", "2"));
  link.Send(Report(3));
  EXPECT_THAT(daemon.WaitFor(3), ElementsAre("hello", "2", "3"));
}

// A stopped daemon reads nothing, so its stream takes no more than some hundred kilobytes. Before
// there was a queue, the first report beyond that never returned, and stop_request neither.
TEST(DaemonLinkTest, ADaemonThatDoesNotReadHoldsUpNobodyAndGetsTheNewestReport) {
  const daemon::TempDir dir;
  FakeDaemon daemon(dir.path() + "/trainer.sock");
  DaemonLink link(dir.path() + "/trainer.sock", "0123456789abcdef0123456789abcdef", 1, 0);
  link.Start();
  link.Send(Report(1));
  EXPECT_THAT(daemon.WaitFor(2), ElementsAre("hello", "1"));
  daemon.StopReading();
  constexpr int kReports = 1000;
  for (int i = 2; i <= kReports; ++i) {
    v1alpha1::RankReport report = Report(i);
    report.mutable_exit()->set_message(std::string(10'000, 'x'));
    link.Send(report);
  }
  EXPECT_FALSE(link.stop_request(absl::InfiniteDuration()).stop);
  daemon.ReadAgain();
  std::vector<std::string> read;
  for (size_t count = 3; read.empty() || read.back() != std::to_string(kReports); ++count) {
    read = daemon.WaitFor(count);
    ASSERT_GE(read.size(), count);
  }
  EXPECT_LT(read.size(), static_cast<size_t>(kReports));  // older ones left the queue
}

TEST(DaemonLinkTest, TheNewestRequestForACheckpointCounts) {
  const daemon::TempDir dir;
  FakeDaemon daemon(dir.path() + "/trainer.sock");
  daemon.AskToSave(3);
  DaemonLink link(dir.path() + "/trainer.sock", "0123456789abcdef0123456789abcdef", 1, 0);
  EXPECT_EQ(link.save_request(), 0);
  link.Start();
  const auto wait_for = [&link](int64_t request) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (link.save_request() != request && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    return link.save_request();
  };
  EXPECT_EQ(wait_for(3), 3);
  daemon.AskToSave(2);  // on the way for longer
  daemon.AskToSave(4);
  EXPECT_EQ(wait_for(4), 4);
  EXPECT_FALSE(link.stop_request(absl::InfiniteDuration()).stop);
}

TEST(DaemonLinkTest, SilenceBeyondTheLeaseAsksForACheckpointAndAStop) {
  DaemonLink link("/nonexistent/trainer.sock", "0123456789abcdef0123456789abcdef", 1, 0);
  link.CountSilence(absl::Seconds(15));
  EXPECT_FALSE(link.stop_request(absl::Seconds(15)).stop);
  link.CountSilence(absl::Milliseconds(1));
  const StopRequest request = link.stop_request(absl::Seconds(15));
  EXPECT_TRUE(request.stop);
  EXPECT_TRUE(request.checkpoint);
  EXPECT_TRUE(request.daemon_lost);
}

}  // namespace
}  // namespace stretto::trainer

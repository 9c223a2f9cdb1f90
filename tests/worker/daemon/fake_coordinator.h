// SPDX-License-Identifier: Apache-2.0
#pragma once
// A coordinator that only listens and answers as told. In-process, on a free port.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "stretto/v1alpha1/worker.grpc.pb.h"

namespace stretto::daemon {

namespace v1 = stretto::v1alpha1;

class FakeCoordinator final : public v1::WorkerService::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>;

  // Before a worker connects.
  grpc::Status refusal;                 // not OK: the answer to Register
  bool acknowledge = true;              // answer reports with ReportAck
  std::vector<v1::HeldRankReply> held;  // for Registered
  std::string cluster_id = "here";      // likewise

  // `port` 0 takes a free one; another port is that of a coordinator that ended before.
  explicit FakeCoordinator(int port = 0, std::vector<v1::HeldRankReply> held = {},
                           grpc::Status refusal = grpc::Status::OK)
      : refusal(std::move(refusal)), held(std::move(held)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeCoordinator() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int port() const { return port_; }

  void Send(const v1::CoordinatorMessage& message) {
    EXPECT_TRUE(WaitFor([this] { return stream_ != nullptr; })) << "no daemon is connected";
    const std::lock_guard lock(mu_);
    if (stream_ != nullptr) stream_->Write(message);
  }

  // Waits, under the lock, until `condition` holds. False after 20 s.
  bool WaitFor(const std::function<bool()>& condition) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(20), condition);
  }

  std::vector<v1::RankReport> CopyReportsOf(int32_t rank) {
    const std::lock_guard lock(mu_);
    return ReportsOf(rank);
  }

  // Read the rest inside WaitFor, or when nothing more can arrive.
  std::vector<v1::Register> registrations;
  std::vector<v1::RankReport> reports;  // in the order of arrival
  std::map<int64_t, std::string> logs;  // by stream
  std::map<int64_t, v1::LogData> log_ends;
  int heartbeats = 0;
  int refused = 0;                         // answers with `refusal`
  std::vector<std::string> refused_peers;  // of whom: the address and port of each
  v1::Heartbeat heartbeat;                 // the last

  std::vector<v1::RankReport> ReportsOf(int32_t rank) const {
    std::vector<v1::RankReport> mine;
    for (const v1::RankReport& report : reports) {
      if (report.rank() == rank) mine.push_back(report);
    }
    return mine;
  }
  const v1::RankExit* ExitOf(int32_t rank) const {
    for (const v1::RankReport& report : reports) {
      if (report.rank() == rank && report.has_exit()) return &report.exit();
    }
    return nullptr;
  }

  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override {
    v1::WorkerMessage message;
    if (!stream->Read(&message)) return grpc::Status::OK;
    if (!refusal.ok()) {
      const std::lock_guard lock(mu_);
      ++refused;
      refused_peers.push_back(context->peer());
      changed_.notify_all();
      return refusal;
    }
    v1::CoordinatorMessage answer;
    v1::Registered* registered = answer.mutable_registered();
    registered->mutable_lease()->set_seconds(3);
    *registered->mutable_heartbeat_interval() =
        google::protobuf::util::TimeUtil::MillisecondsToDuration(50);
    registered->set_cluster_id(cluster_id);
    for (const v1::HeldRankReply& reply : held) *registered->add_held() = reply;
    {
      const std::lock_guard lock(mu_);
      registrations.push_back(message.register_());
      stream->Write(answer);
      stream_ = stream;
    }
    changed_.notify_all();
    while (stream->Read(&message)) Receive(stream, message);
    const std::lock_guard lock(mu_);
    // The next daemon's session may begin before the end of this one is seen.
    if (stream_ == stream) stream_ = nullptr;
    return grpc::Status::OK;
  }

  grpc::Status StoreSet(grpc::ServerContext*, const v1::StoreSetRequest* request,
                        v1::StoreSetResponse*) override {
    const std::lock_guard lock(mu_);
    store_[request->key()] = request->value();
    changed_.notify_all();
    return grpc::Status::OK;
  }
  grpc::Status StoreGet(grpc::ServerContext*, const v1::StoreGetRequest* request,
                        v1::StoreGetResponse* response) override {
    std::unique_lock lock(mu_);
    changed_.wait_for(lock, std::chrono::milliseconds(500),
                      [&] { return store_.count(request->key()) != 0; });
    if (store_.count(request->key()) == 0) {
      return grpc::Status(grpc::StatusCode::ABORTED, "epoch 1 is not current");
    }
    response->set_value(store_[request->key()]);
    return grpc::Status::OK;
  }

 private:
  void Receive(Stream* stream, const v1::WorkerMessage& message) {
    const std::lock_guard lock(mu_);
    if (message.has_heartbeat()) {
      ++heartbeats;
      heartbeat = message.heartbeat();
    }
    if (message.has_log_data()) {
      logs[message.log_data().stream()] += message.log_data().data();
      if (message.log_data().end()) log_ends[message.log_data().stream()] = message.log_data();
    }
    if (message.has_report()) {
      const v1::RankReport& report = message.report();
      reports.push_back(report);
      if (acknowledge) {
        v1::CoordinatorMessage answer;
        answer.mutable_ack()->set_job_uid(report.job_uid());
        answer.mutable_ack()->set_epoch(report.epoch());
        answer.mutable_ack()->set_rank(report.rank());
        answer.mutable_ack()->set_sequence(report.sequence());
        stream->Write(answer);
      }
    }
    changed_.notify_all();
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mu_;
  std::condition_variable changed_;
  Stream* stream_ = nullptr;  // of the open session
  std::map<std::string, std::string> store_;
};

}  // namespace stretto::daemon

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workers that only send heartbeats, any number of them from one process, over real gRPC.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/coordinator/service/harness.h"

namespace stretto::integration {

// Registered when the constructor returns. Each sends a heartbeat every 2 s, evenly spread, from a
// thread of the fleet. Their one slot is a GPU, so no job of CPUs is placed on them.
class Fleet {
 public:
  struct Connections {
    size_t sessions_each =
        500;  // a coordinator takes 1,000 streams of a connection; daemons have one
    std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  };
  Fleet(const std::string& coordinator, int count);
  Fleet(const std::string& coordinator, int count, const Connections& connections);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Rounds of heartbeats that took longer than their 2 s: then this machine was too slow.
  int late_rounds() const { return late_rounds_; }

 private:
  void Beat();

  std::vector<std::unique_ptr<v1alpha1::WorkerService::Stub>> stubs_;
  std::vector<std::unique_ptr<service::FakeWorker>> workers_;
  std::atomic<size_t> registered_ = 0;  // the first of workers_
  std::atomic<bool> stopping_ = false;
  std::atomic<int> late_rounds_ = 0;
  std::thread thread_;
};

}  // namespace stretto::integration

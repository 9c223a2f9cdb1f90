// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks in processes of their own, each with an emulated device: its memory is the host's, so gloo
// carries the tensors, in the turn of the stream.
//
// As with NCCL_LAUNCH_ORDER_IMPLICIT, a call starts only when all calls that the process issued
// before it, on any stream, have started. From then on a thread of the communicator runs it, as a
// kernel would, and other streams continue.

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "worker/comm/communicator.h"
#include "worker/comm/device_communicator.h"

namespace stretto {

// The calls of a process that were issued and have not started. Of the thread that drives the
// device.
class IssuedCalls {
 public:
  uint64_t Issue() { return *waiting_.insert(++last_).first; }
  bool MayStart(uint64_t call) const { return *waiting_.begin() == call; }
  void Start(uint64_t call) { waiting_.erase(call); }

 private:
  uint64_t last_ = 0;
  std::set<uint64_t> waiting_;
};

class GlooDevice final : public DeviceCommunicator {
 public:
  // `issued` is borrowed and shared by all communicators of the process.
  GlooDevice(std::unique_ptr<Communicator> host, IssuedCalls* issued)
      : host_(std::move(host)), issued_(issued), thread_([this] { RunCalls(); }) {}
  ~GlooDevice() override {
    host_->Abort();
    {
      const MutexLock lock(mu_);
      ends_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  absl::Status Run(const Collective& collective, void* stream) override {
    RETURN_IF_ERROR(Poll());
    // Calls of a communicator start in the order in which they are issued.
    cudaError_t error = cuda_emulator::Enqueue(
        static_cast<cudaStream_t>(stream), [=, this] { Start(collective); },
        [this] { return aborted_ || issued_->MayStart(mine_.front()); },
        [this] { mine_.push_back(issued_->Issue()); });
    if (error == cudaSuccess) {
      error = cuda_emulator::Enqueue(
          static_cast<cudaStream_t>(stream), [this] { dead_.Update(Taken()); },
          [this] { return Done(); });
    }
    return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorName(error));
  }
  absl::Status Poll() override {
    if (dead_.ok() && aborted_) dead_ = absl::AbortedError("the group was aborted");
    return dead_;
  }
  void Abort() override {
    aborted_ = true;
    host_->Abort();
  }

 private:
  void Start(const Collective& collective) {
    issued_->Start(mine_.front());
    mine_.pop_front();
    const MutexLock lock(mu_);
    call_ = collective;
    state_ = State::kStarted;
    changed_.NotifyAll();
  }
  bool Done() {
    const MutexLock lock(mu_);
    return state_ == State::kDone;
  }
  absl::Status Taken() {
    const MutexLock lock(mu_);
    state_ = State::kIdle;
    return status_;
  }

  void RunCalls() {
    while (true) {
      Collective call;
      {
        const MutexLock lock(mu_);
        changed_.Wait(mu_, [&]() REQUIRES(mu_) { return ends_ || state_ == State::kStarted; });
        if (ends_) return;
        call = call_;
      }
      const absl::Status status = host_->Run(call);
      const MutexLock lock(mu_);
      status_ = status;
      state_ = State::kDone;
    }
  }

  const std::unique_ptr<Communicator> host_;
  IssuedCalls* const issued_;
  std::atomic<bool> aborted_{false};

  // Of the thread that drives the device.
  std::deque<uint64_t> mine_;  // issued and not started
  absl::Status dead_;

  enum class State { kIdle, kStarted, kDone };
  Mutex mu_;
  CondVar changed_;
  State state_ GUARDED_BY(mu_) = State::kIdle;
  Collective call_ GUARDED_BY(mu_);
  absl::Status status_ GUARDED_BY(mu_);
  bool ends_ GUARDED_BY(mu_) = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace stretto

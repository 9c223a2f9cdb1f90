// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranks in processes of their own, each with an emulated device: its memory is the host's, so gloo
// carries the tensors, in the turn of the stream.

#include <cuda_runtime.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "proto/base/status_macros.h"
#include "worker/comm/communicator.h"
#include "worker/comm/device_communicator.h"

namespace stretto {

class GlooDevice final : public DeviceCommunicator {
 public:
  explicit GlooDevice(std::unique_ptr<Communicator> host) : host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }

  absl::Status Run(const Collective& collective, void* stream) override {
    return Enqueue(stream, [=, this] { return host_->Run(collective); });
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
  absl::Status Enqueue(void* stream, std::function<absl::Status()> call) {
    RETURN_IF_ERROR(Poll());
    const cudaError_t error =
        cuda_emulator::Enqueue(static_cast<cudaStream_t>(stream), [this, call = std::move(call)] {
          if (dead_.ok()) dead_ = call();
        });
    return error == cudaSuccess ? absl::OkStatus() : absl::InternalError(cudaGetErrorName(error));
  }

  const std::unique_ptr<Communicator> host_;
  std::atomic<bool> aborted_{false};
  absl::Status dead_;  // of the thread that drives the device
};

}  // namespace stretto

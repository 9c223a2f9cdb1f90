// SPDX-License-Identifier: Apache-2.0
#pragma once
// Turns a collective of the program into calls that enqueue it, in the type on the wire.

#include <cuda_runtime.h>

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/comm/device_communicator.h"
#include "worker/engine/exec/backend_cuda/collective_memory.h"
#include "worker/engine/exec/backend_cuda/group_kernels.h"
#include "worker/engine/program/program.h"

namespace stretto::cuda {

// Device memory of one lane for tensors whose type on the wire differs from their own.
class WireMemory {
 public:
  // Call once, before anything is bound. Errors: those of CollectiveMemory::Make.
  absl::Status Allocate(int64_t in_bytes, int64_t out_bytes,
                        const std::vector<DeviceCommunicator*>& users, const Report& report);
  void* in() const { return in_.get(); }
  void* out() const { return out_.get(); }

 private:
  CollectiveMemory in_, out_;
};

using Enqueue = std::function<absl::Status()>;

// Binds a collective whose ranks are all on this device: one kernel over the operands of all.
Enqueue BindGroupCollective(const Op& op, const GroupTensors& tensors, cudaStream_t stream);

// Binds a collective of a rank whose peers are elsewhere. `wire` must be as large as the largest
// tensor that travels as bf16. `wire` and `communicator` are borrowed.
Enqueue BindDeviceCollective(const Op& op, TensorView in, TensorView out,
                             DeviceCommunicator* communicator, const WireMemory* wire,
                             cudaStream_t stream);

}  // namespace stretto::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The streams of a step's lanes and the calls that enqueue operations on them. Operations are bound
// once for every shape of an instance, for all ranks on the device.

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/exec/backend_cuda/bind_device_collective.h"
#include "worker/engine/exec/backend_cuda/cuda_executor.h"
#include "worker/engine/exec/backend_cuda/issue_plan.h"
#include "worker/engine/exec/backend_cuda/step_memory.h"

namespace stretto::cuda {

class LaneStreams {
 public:
  // `ranks` and `memory` (one per rank) are borrowed. Errors: those of MakeCudaExecutors.
  static absl::StatusOr<LaneStreams> Create(const IdVector<LocalRank, CudaRank>& ranks,
                                            const IdVector<LocalRank, StepMemory>& memory,
                                            const CudaExecutorOptions& options);

  cudaStream_t stream(LaneId lane) const { return lanes_[lane].stream.get(); }
  bool communicates(LaneId lane) const { return lanes_[lane].communicates; }
  // Returns calls that enqueue the operations of an instance, in its order. They serve every
  // instance of the same shape.
  std::vector<Enqueue> Bind(const IssuedInstance& instance) const;
  void WeightsChanged();

 private:
  struct Lane {
    Stream stream;
    StreamOps compute;  // empty on a lane that only communicates
    WireMemory wire;
    bool communicates = false;
  };

  LaneStreams(const IdVector<LocalRank, CudaRank>& ranks,
              const IdVector<LocalRank, StepMemory>& memory)
      : ranks_(&ranks), memory_(&memory) {}
  absl::Status CheckGroups() const;
  absl::Status MakeLane(LaneId lane, const CudaExecutorOptions& options);
  DeviceCommunicator* CommunicatorOf(LocalRank rank, GroupId group) const;
  bool IsLocal(GroupId group) const;
  Enqueue BindCollectiveAt(const IssuedInstance& instance, size_t position) const;
  Enqueue BindComputeAt(const IssuedInstance& instance, size_t position) const;
  // Returns a call that also reports the error of the kernels. `under`: a collective may run at the
  // same time.
  Enqueue Checked(std::function<void()> call, CudaOps* ops, bool under) const;
  // Binds the operation and the next one of its segment as one call; empty where Ops has none.
  Enqueue BindPairAt(const IssuedInstance& instance, size_t position, size_t next) const;

  const IdVector<LocalRank, CudaRank>* ranks_;
  const IdVector<LocalRank, StepMemory>* memory_;
  int sms_under_collectives_ = 0;  // 0: all
  IdVector<LaneId, Lane> lanes_;
};

}  // namespace stretto::cuda

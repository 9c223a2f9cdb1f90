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
#include "worker/engine/exec/backend_cuda/unit_ops.h"

namespace stretto::cuda {

class LaneStreams {
 public:
  // `plan`, `ranks` and `memory` (one per rank) are borrowed. Errors: those of MakeCudaExecutors.
  static absl::StatusOr<LaneStreams> Create(const IssuePlan& plan,
                                            const IdVector<LocalRank, CudaRank>& ranks,
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

  LaneStreams(const IssuePlan& plan, const IdVector<LocalRank, CudaRank>& ranks,
              const IdVector<LocalRank, StepMemory>& memory)
      : plan_(&plan), ranks_(&ranks), memory_(&memory) {
    for (const CudaRank& rank : ranks) units_.emplace_back(rank.step);
  }
  absl::Status CheckGroups() const;
  absl::Status MakeLane(LaneId lane, const CudaExecutorOptions& options);
  // Returns the link of the only rank of the device.
  GroupLink LinkOf(GroupId group) const;
  bool IsLocal(LocalRank rank, GroupId group) const;
  const Op& OpOf(RankOp of) const { return units_[of.rank].of(of.op); }
  TensorView Operand(RankOp of, BufferId id) const;
  std::vector<TensorView> Operands(RankOp of, const BufferList& ids) const;
  Enqueue BindCollectiveAt(const IssuedInstance& instance, size_t position) const;
  Enqueue BindComputeAt(const IssuedInstance& instance, size_t position) const;
  // Returns a call that also reports the error of the kernels. `under`: a collective may run at the
  // same time.
  Enqueue Checked(std::function<void()> call, CudaOps* ops, bool under) const;
  // Binds the operation and the next one of its segment as one call; empty where Ops has none.
  Enqueue BindPairAt(const IssuedInstance& instance, size_t position, size_t next) const;

  const IssuePlan* plan_;
  const IdVector<LocalRank, CudaRank>* ranks_;
  const IdVector<LocalRank, StepMemory>* memory_;
  IdVector<LocalRank, UnitOps> units_;
  int sms_under_collectives_ = 0;  // 0: all
  IdVector<LaneId, Lane> lanes_;
};

}  // namespace stretto::cuda

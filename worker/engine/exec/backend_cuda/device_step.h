// SPDX-License-Identifier: Apache-2.0
#pragma once
// Executes the step of all ranks on a device from one host thread.

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/exec/backend_cuda/cuda_executor.h"
#include "worker/engine/exec/backend_cuda/device_calls.h"
#include "worker/engine/exec/backend_cuda/instance_player.h"
#include "worker/engine/exec/backend_cuda/issue_plan.h"
#include "worker/engine/exec/backend_cuda/lane_streams.h"
#include "worker/engine/exec/backend_cuda/ledger_check.h"
#include "worker/engine/exec/backend_cuda/step_memory.h"

namespace stretto::cuda {

// Not thread-safe, except Cancel.
class DeviceStep {
 public:
  DeviceStep(IdVector<LocalRank, CudaRank> ranks, CudaExecutorOptions options);

  // Call once, before anything else. Errors: those of MakeCudaExecutors.
  absl::Status Prepare();

  // Runs one step for all ranks. Errors: those of Executor::Run.
  absl::Status Run();
  // Returns the intervals of the last Run, by operation index.
  absl::Span<const Interval> intervals(LocalRank rank) const { return intervals_[rank]; }

  // Selects the device for the calling thread. Call it before calls of `memory`.
  absl::Status UseDevice() const;
  StepMemory& memory(LocalRank rank) { return memory_[rank]; }

  // Whether the device runs nothing of ours any more. If it does, memory must not be freed.
  bool at_rest() const { return at_rest_; }

  // Thread-safe.
  void Cancel();

 private:
  absl::Status RunStep();
  // Returns the communicators of rank 0; with several ranks there are none.
  std::vector<DeviceCommunicator*> Communicators() const;
  absl::StatusOr<bool> IsDone(cudaEvent_t event) const;
  // Polls the step until the event has completed. Errors name the operation that the step was at.
  absl::Status Await(cudaEvent_t event);
  // Reports how far the lanes have come, and returns whether the event has completed.
  absl::StatusOr<bool> LookAtLanes(cudaEvent_t event);
  absl::Status LookAt(LaneId lane);
  void Tell(const Segment& segment) const;
  std::string FirstNotDone() const;
  absl::Status ReadIntervals();
  // Makes the check with CUPTI, if the options request it.
  absl::Status MakeLedgerCheck();
  absl::Status CheckLedger();
  // Stops what an error may have left on the device, waiting for peers.
  void ComeToRest();

  const IdVector<LocalRank, CudaRank> ranks_;
  const CudaExecutorOptions options_;
  IssuePlan plan_;
  IdVector<LocalRank, StepMemory> memory_;
  std::unique_ptr<LaneStreams> lanes_;
  std::unique_ptr<InstancePlayer> player_;
  std::unique_ptr<LedgerCheck> check_;  // null: not requested
  bool has_run_ = false;
  IdVector<LaneId, std::vector<const Segment*>> segments_of_;
  IdVector<LaneId, size_t> segments_done_;  // number of segments seen to complete
  DeviceCalls calls_;
  IdVector<LocalRank, IdVector<OpId, Interval>> intervals_;  // [rank]
  int64_t begin_ = 0;  // begin of the step, on the host's clock
  absl::Status lost_;  // the last error of a communicator
  absl::Status error_;
  bool at_rest_ = true;
  std::atomic<bool> cancelled_{false};
};

}  // namespace stretto::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step of all ranks on a device, from one host thread.

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/exec/backend_cuda/cuda_executor.h"
#include "worker/engine/exec/backend_cuda/instance_player.h"
#include "worker/engine/exec/backend_cuda/issue_plan.h"
#include "worker/engine/exec/backend_cuda/lane_streams.h"
#include "worker/engine/exec/backend_cuda/ledger_check.h"
#include "worker/engine/exec/backend_cuda/step_memory.h"

namespace stretto::cuda {

// One thread at a time, except Cancel.
class DeviceStep {
 public:
  DeviceStep(std::vector<CudaRank> ranks, CudaExecutorOptions options);

  // Once, before anything else. Errors: as MakeCudaExecutors.
  absl::Status Prepare();

  // As Executor::Run, for all ranks.
  absl::Status Run();
  // Of the last Run, by operation index.
  absl::Span<const Interval> intervals(size_t rank) const { return intervals_[rank]; }

  // Makes the device that of the calling thread; before calls of `memory`.
  absl::Status UseDevice() const;
  StepMemory& memory(size_t rank) { return memory_[rank]; }

  // Whether nothing of ours is on the device any more. If not, memory must not be given back.
  bool at_rest() const { return at_rest_; }

  // From any thread.
  void Cancel();

 private:
  absl::Status RunStep();
  // Of rank 0: with more ranks there are none.
  std::vector<DeviceCommunicator*> Communicators() const;
  absl::StatusOr<bool> IsDone(cudaEvent_t event) const;
  // Watches the step until the event has come. Errors name where the step was.
  absl::Status Await(cudaEvent_t event);
  // Tells how far lanes have come, and whether the event has.
  absl::StatusOr<bool> LookAtLanes(cudaEvent_t event);
  void Tell(const Segment& segment) const;
  std::string FirstNotDone() const;
  absl::Status ReadIntervals();
  // With CUPTI, if asked to.
  absl::Status MakeLedgerCheck();
  absl::Status CheckLedger();
  // After an error part of a step may still be on the device, waiting for peers.
  void ComeToRest();

  const std::vector<CudaRank> ranks_;
  const CudaExecutorOptions options_;
  IssuePlan plan_;
  std::vector<StepMemory> memory_;
  std::unique_ptr<LaneStreams> lanes_;
  std::unique_ptr<InstancePlayer> player_;
  std::unique_ptr<LedgerCheck> check_;  // null: not asked for
  IdVector<LaneId, std::vector<const Segment*>> segments_of_;
  IdVector<LaneId, size_t> segments_done_;        // seen done
  std::vector<std::vector<Interval>> intervals_;  // [rank]
  int64_t begin_ = 0;                             // of the step, on the host's clock
  absl::Status lost_;                             // what a communicator said at last
  absl::Status error_;
  bool at_rest_ = true;
  std::atomic<bool> cancelled_{false};
};

}  // namespace stretto::cuda

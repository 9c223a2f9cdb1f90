// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs step programs on one CUDA device: lanes are streams, waits are events, units are graphs
// (issue_plan.h), and the host only issues, and at the end asks until all is done.
//
// Several ranks may share the device and the streams: their operations are issued side by side, and
// a collective among them is one kernel (group_kernels.h). That is the local communicator of this
// backend, and what a program is proved with on one GPU.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_ops.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/device_wait.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

struct CudaRank {
  StepProgram step;
  Program program;  // its expansion, verified with planned memory
  ArenaBytes arenas = {};
  // By group index; borrowed, for this device, one for each lane of the group at most; they outlive
  // the executors, whose graphs hold their collectives and whose memory is registered with them.
  // None for groups whose ranks are all here.
  std::vector<DeviceCommunicator*> communicators;
  OnBegin on_begin;               // may be empty
  PerArena<Arena> borrowed = {};  // as ExecutorRequest::borrowed
};

// The operations on a stream (cudaStream_t), and what they stand on.
struct StreamOps {
  std::shared_ptr<void> workspace;  // of no type of ours: memory of the device
  std::unique_ptr<MatrixProducts> products;
  std::unique_ptr<FusedAttention> attention = nullptr;  // where there is one
  std::unique_ptr<CudaOps> ops;
};
using MakeStreamOps = std::function<absl::StatusOr<StreamOps>(void* stream)>;

struct CudaExecutorOptions {
  int device = 0;
  MakeStreamOps make_ops;
  // Replay units as graphs from their second time on. Else every call is issued every time.
  bool graphs = true;
  // Room that kernels leave, in SMs, while a collective may be under way, for it to begin at once.
  // Costs no bits. At least 0; kernels keep the room of one SM in any case.
  int collective_sms = 0;
  // For a part of a step to be done: the host runs ahead by some hundred operations of a lane.
  DeviceWaitOptions wait = {.timeout = absl::Minutes(30)};
  // A libcupti to check every step's intervals with (ledger_check.h), without graphs then; empty:
  // none. A step whose intervals are not what it saw fails with Internal.
  std::string cupti = {};
  // Told, for the log, what works but not as well as it could; may be empty. Called by
  // MakeCudaExecutors.
  std::function<void(const std::string&)> report = {};
};

// One executor per rank, in the order given. With more than one, each belongs to a thread: Run
// waits until it was called on all, then the last caller drives the step for all, and all return
// its status. Cancel on one ends the Run of all with Aborted. intervals() are those of the segment
// (issue_plan.h) that an operation is in, and communication takes no CPU time.
//
// Errors: InvalidArgument (ranks whose instances or collectives differ; communicators that do not
// fit their group), ResourceExhausted naming arena and size, the device's. Of Run also: Internal
// naming the operation whose launch failed, or the first that was not seen done when the device
// broke or a communicator failed.
absl::StatusOr<std::vector<std::unique_ptr<Executor>>> MakeCudaExecutors(
    std::vector<CudaRank> ranks, CudaExecutorOptions options);

}  // namespace stretto

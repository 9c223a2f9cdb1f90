// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs step programs on one CUDA device. Lanes are streams, waits are events, and units are graphs
// (issue_plan.h). The host only enqueues, and at the end polls until everything is done.
//
// Several ranks may share the device and the streams. Their operations are then issued side by
// side (merge_ranks.h), and a collective among them is one kernel (group_kernels.h). This is the
// local communicator of the backend, and it proves programs of several ranks on one GPU.

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_ops.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/device_wait.h"
#include "worker/engine/exec/backend.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

struct CudaRank {
  StepProgram step;
  Program program;  // its expansion, verified with planned memory
  ArenaBytes arenas = {};
  // By group index; communicators for this device, used by at most one lane each. They must outlive
  // the executors, whose graphs hold their collectives and whose memory is registered with them.
  // Empty for groups whose ranks are all on this device.
  GroupLinks links;
  OnBegin on_begin;               // may be empty
  PerArena<Arena> borrowed = {};  // as ExecutorRequest::borrowed
};

// The operations on a stream (cudaStream_t) and the objects that they use.
struct StreamOps {
  std::shared_ptr<void> workspace;  // of no type of ours: memory of the device
  std::unique_ptr<MatrixProducts> products;
  std::unique_ptr<FusedAttention> attention = nullptr;  // where there is one
  std::unique_ptr<CudaOps> ops;
};
using MakeStreamOps = std::function<absl::StatusOr<StreamOps>(void* stream)>;

// Returns how many of a device's SMs collectives leave that take as many as this.
inline int SmsBesideCollectives(int sms, int collective_sms) {
  return std::max(1, sms - collective_sms);
}

struct CudaExecutorOptions {
  int device = 0;
  MakeStreamOps make_ops;
  // Replay units as graphs from their second time on. Otherwise every call is issued every time.
  bool graphs = true;
  // The number of SMs that kernels leave free while a collective may be in progress, so that it can
  // begin at once. Of the same kernels it does not change results. At least 0; kernels always keep
  // at least one SM.
  int collective_sms = 0;
  // The timeout of a part of a step: the host runs ahead by a few hundred operations of a lane.
  DeviceWaitOptions wait = {.timeout = absl::Minutes(30)};
  // The libcupti with which to check the intervals of every step but the first (ledger_check.h),
  // without graphs; empty: none. A step whose intervals differ from CUPTI's fails with Internal.
  std::string cupti = {};
  // Receives messages for the log about features that work, but slower than they could; may be
  // empty. Called by MakeCudaExecutors.
  std::function<void(const std::string&)> report = {};
};

// Makes one executor per rank, in the order given. With several ranks, each executor belongs to a
// thread of its own: Run waits until it has been called on all, then the last caller drives the
// step for all, and all return its status. Cancel on one makes Run return Aborted on all.
// intervals() are those of the segment (issue_plan.h) of each operation, and communication uses no
// CPU time.
//
// Errors: InvalidArgument (ranks whose collectives differ or whose groups have members elsewhere;
// communicators that do not fit their group), ResourceExhausted naming arena and size, those of the
// device. Run also returns Internal when a launch fails, naming the operation, or when the device
// breaks or a communicator fails, naming the first operation that was not seen to complete.
absl::StatusOr<std::vector<std::unique_ptr<Executor>>> MakeCudaExecutors(
    IdVector<LocalRank, CudaRank> ranks, CudaExecutorOptions options);

}  // namespace stretto

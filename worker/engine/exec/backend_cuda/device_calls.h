// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tells the watches of a rank's groups (GroupLink::watch) where its device is in their calls, by
// the marks around each of them: a call is a segment of its own (issue_plan.h).
//
// When the begin mark has completed, all that the call needs of this rank is done: it has begun and
// waits for its peers. When the end mark has completed, it has ended. A call that begins and ends
// between two looks is told then, so that each is told once.

#include <cstddef>
#include <vector>

#include "worker/comm/call_watch.h"
#include "worker/engine/exec/backend_cuda/cuda_executor.h"
#include "worker/engine/exec/backend_cuda/issue_plan.h"

namespace stretto::cuda {

class DeviceCalls {
 public:
  DeviceCalls() = default;  // of nothing
  // Borrows the watches. Groups of ranks that share a device have none.
  DeviceCalls(const IssuePlan& plan, const IdVector<LocalRank, CudaRank>& ranks);

  // A step begins. Counts are not right after one that failed.
  void BeginStep() { begun_.assign(calls_.size(), false); }
  // The thread begins, or ceases, to do nothing but look at the device.
  void Poll(bool polls) const;

  // Of a lane's segment by number, all before which have ended: whether its begin is to be told.
  bool ExpectsBegin(LaneId lane, size_t segment) const {
    return !begun_[lane] && calls_[lane][segment].watch != nullptr;
  }
  void Begin(LaneId lane, size_t segment);
  // Also begins it, if that was not told.
  void End(LaneId lane, size_t segment);

 private:
  struct Call {
    CallWatch* watch = nullptr;  // null: none is watched
    int peer = -1;               // -1: any
    bool receives = false;
  };
  static Call CallOf(const CudaRank& rank, const Op& op);

  std::vector<CallWatch*> watches_;
  IdVector<LaneId, std::vector<Call>> calls_;  // [lane][segment]
  IdVector<LaneId, bool> begun_;               // the call of the next segment
};

}  // namespace stretto::cuda

// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/device_calls.h"

namespace stretto::cuda {

DeviceCalls::DeviceCalls(const IssuePlan& plan, const IdVector<LocalRank, CudaRank>& ranks)
    : calls_(plan.lanes.size()), begun_(plan.lanes.size()) {
  const CudaRank& rank = ranks[0];  // several have no links
  for (const GroupLink& link : rank.links) {
    if (link.watch != nullptr) watches_.push_back(link.watch);
  }
  for (const Segment& segment : plan.segments)
    calls_[segment.lane].push_back(CallOf(rank, rank.program.ops[segment.ops[0].op]));
}

DeviceCalls::Call DeviceCalls::CallOf(const CudaRank& rank, const Op& op) {
  if (op.group < 0 || op.group.position() >= rank.links.size()) return {};
  Call call{.watch = rank.links[op.group.position()].watch};
  // The first of the group sends. With several receivers, it waits for no certain one.
  if (op.kind == OpKind::kRecv) {
    call.peer = 0;
    call.receives = true;
  } else if (op.kind == OpKind::kSend && rank.program.groups[op.group].ranks.size() == 2) {
    call.peer = 1;
  }
  return call;
}

void DeviceCalls::Poll(bool polls) const {
  for (CallWatch* watch : watches_) watch->OnPoll(polls);
}

void DeviceCalls::Begin(LaneId lane, size_t segment) {
  const Call& call = calls_[lane][segment];
  call.watch->OnBegin();
  if (call.peer >= 0) call.watch->OnAwait(call.peer, call.receives);
  begun_[lane] = true;
}

void DeviceCalls::End(LaneId lane, size_t segment) {
  if (ExpectsBegin(lane, segment)) Begin(lane, segment);
  if (CallWatch* watch = calls_[lane][segment].watch; watch != nullptr) watch->OnEnd();
  begun_[lane] = false;
}

}  // namespace stretto::cuda

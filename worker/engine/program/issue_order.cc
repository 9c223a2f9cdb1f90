// SPDX-License-Identifier: Apache-2.0

// One walk in program order gives each receive its front: the first instance before which it may be
// enqueued. That is behind everything that it waits for, behind what precedes it on its lane, and
// not before the instance of the receive before it, or its own instance if it is the first. All
// other operations stay in place.

#include "worker/engine/program/issue_order.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stretto {
namespace {

// An operation of an instance.
struct At {
  InstanceId instance = -1;
  OpId op = -1;
};

class Fronts {
 public:
  explicit Fronts(const StepProgram& step)
      : step_(step), last_(step.lanes.size()), received_(step.lanes.size()) {
    for (const Instance& instance : step.instances)
      front_.push_back(IdVector<OpId, InstanceId>(step.units[instance.unit].ops.size(), -1));
    for (InstanceId i : step.instances.ids()) Walk(i);
  }

  // The instance before which an operation is enqueued; -1: it stays where it is.
  InstanceId of(InstanceId instance, OpId op) const { return front_[instance][op]; }

 private:
  void Walk(InstanceId i) {
    const IdVector<OpId, Op>& ops = step_.units[step_.instances[i].unit].ops;
    for (OpId op : ops.ids()) {
      const LaneId lane = ops[op].lane;
      if (ops[op].kind == OpKind::kRecv) {
        const InstanceId front = FrontOf({i, op});
        if (front <= i) front_[i][op] = front;
        received_[lane] = i;
      }
      last_[lane] = {i, op};
    }
  }

  InstanceId FrontOf(At receive) const {
    const Instance& instance = step_.instances[receive.instance];
    const Op& op = step_.units[instance.unit].ops[receive.op];
    InstanceId front = received_[op.lane] >= 0 ? received_[op.lane] : receive.instance;
    if (last_[op.lane].op >= 0) front = std::max(front, Behind(last_[op.lane]));
    for (OpId wait : op.waits) front = std::max(front, Behind({receive.instance, wait}));
    for (const CarriedWait& wait : instance.waits) {
      if (wait.op == receive.op) front = std::max(front, Behind({wait.instance, wait.producer}));
    }
    return front;
  }

  InstanceId Behind(At at) const {
    const InstanceId front = front_[at.instance][at.op];
    return front >= 0 ? front : at.instance + 1;
  }

  const StepProgram& step_;
  IdVector<InstanceId, IdVector<OpId, InstanceId>> front_;
  IdVector<LaneId, At> last_;              // the last operation of each lane so far
  IdVector<LaneId, InstanceId> received_;  // the last instance with a receive on it; -1: none
};

}  // namespace

std::vector<IssuedRun> IssueOrder(const StepProgram& step) {
  const Fronts fronts(step);
  IdVector<InstanceId, std::vector<IssuedRun>> early(step.instances.size());
  IdVector<InstanceId, std::vector<IssuedRun>> in_place(step.instances.size());
  for (InstanceId i : step.instances.ids()) {
    const IdVector<OpId, Op>& ops = step.units[step.instances[i].unit].ops;
    for (OpId op : ops.ids()) {
      const InstanceId front = fronts.of(i, op);
      std::vector<IssuedRun>& runs = front >= 0 ? early[front] : in_place[i];
      const bool transfers = IsTransfer(ops[op].kind);
      if (runs.empty() || runs.back().instance != i || runs.back().transfers != transfers)
        runs.push_back({i, {}, transfers});
      runs.back().ops.push_back(op);
    }
  }
  std::vector<IssuedRun> order;
  for (InstanceId i : step.instances.ids()) {
    std::move(early[i].begin(), early[i].end(), std::back_inserter(order));
    std::move(in_place[i].begin(), in_place[i].end(), std::back_inserter(order));
  }
  return order;
}

std::vector<GroupId> CallsInIssueOrder(const StepProgram& step) {
  std::vector<GroupId> calls;
  for (const IssuedRun& run : IssueOrder(step)) {
    const IdVector<OpId, Op>& ops = step.units[step.instances[run.instance].unit].ops;
    for (OpId op : run.ops) {
      if (ops[op].group >= 0) calls.push_back(ops[op].group);
    }
  }
  return calls;
}

}  // namespace stretto

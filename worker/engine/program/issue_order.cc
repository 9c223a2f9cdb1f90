// SPDX-License-Identifier: Apache-2.0

// One walk in program order gives each receive its front: the operation that it is enqueued before.
// All other operations stay in place.
//
// Where a receive is between two other calls decides which calls it holds up, and nothing else. So
// it may be anywhere between the two, and is put where a run ends anyway, if there is such a place.

#include "worker/engine/program/issue_order.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "proto/base/check.h"
#include "worker/engine/program/happens_before.h"

namespace stretto {
namespace {

// Positions are operations of the expansion.
class Fronts {
 public:
  Fronts(const Program& program, const std::vector<OpId>& instances)
      : program_(program),
        front_(program.ops.size()),
        last_(program.lanes.size()),
        received_(program.lanes.size()),
        ends_(instances.begin(), instances.end()) {
    auto order = HappensBefore::Build(program);
    STRETTO_CHECK(order.ok());
    order_ = *std::move(order);
    for (OpId op : program.ops.ids()) {
      if (program.ops[op].kind == OpKind::kSend) ends_.insert(op + 1);
    }
    for (OpId op : program.ops.ids()) Walk(op);
  }

  // The operation that `op` is enqueued before, behind others of which that is true: itself, unless
  // it is a receive.
  OpId of(OpId op) const { return front_[op]; }

 private:
  void Walk(OpId op) {
    const LaneId lane = program_.ops[op].lane;
    front_[op] = op;
    if (program_.ops[op].kind == OpKind::kRecv) {
      front_[op] = FrontOf(op);
      if (front_[op] < op) fronts_.insert(front_[op]);
      ends_.insert({front_[op], front_[op] == op ? op + 1 : front_[op]});
      received_[lane] = op;
    }
    last_[lane] = op;
  }

  OpId FrontOf(OpId receive) const {
    const Op& op = program_.ops[receive];
    OpId front = received_[op.lane] < 0 ? BehindSendOf(op.tag.micro_batch, receive)
                                        : BeforeCallBehind(received_[op.lane], receive);
    front = std::max(front, Behind(last_[op.lane]));
    for (OpId wait : op.waits) front = std::max(front, Behind(wait));
    if (front >= receive) return receive;
    OpId next = front;
    while (next < receive && !IsCall(next)) ++next;
    const auto end = ends_.lower_bound(front);
    return end != ends_.end() && *end <= next ? *end : next;
  }

  // Returns the operation behind the last send of a micro-batch before `receive`, or `receive`.
  OpId BehindSendOf(int micro_batch, OpId receive) const {
    for (OpId op = receive; op > 0; op = op - 1) {
      const Op& before = program_.ops[op - 1];
      if (before.kind == OpKind::kSend && before.tag.micro_batch == micro_batch) return op;
    }
    return receive;
  }

  // Returns the first place before `receive` behind which the next call waits for `earlier`, or the
  // first one behind the last call before `receive`.
  OpId BeforeCallBehind(OpId earlier, OpId receive) const {
    OpId op = earlier + 1;
    while (op < receive && !(IsCall(op) && order_.Before(earlier, op))) ++op;
    while (op > 0 && !IsCall(op - 1) && !fronts_.contains(op)) op = op - 1;
    return op;
  }

  // Whether an operation is a call that is enqueued in place.
  bool IsCall(OpId op) const { return program_.ops[op].group >= 0 && front_[op] == op; }

  OpId Behind(OpId op) const { return front_[op] < op ? front_[op] : op + 1; }

  const Program& program_;
  HappensBefore order_;
  IdVector<OpId, OpId> front_;
  IdVector<LaneId, OpId> last_;      // the last operation of each lane so far; -1: none
  IdVector<LaneId, OpId> received_;  // the last receive on it
  std::set<OpId> fronts_;            // of receives that are not enqueued in place
  std::set<OpId> ends_;              // where runs end
};

// Returns the first operation of each instance in the expansion.
std::vector<OpId> FirstOps(const StepProgram& step) {
  std::vector<OpId> first;
  OpId next = 0;
  for (const Instance& instance : step.instances) {
    first.push_back(next);
    next = next + std::ssize(step.units[instance.unit].ops);
  }
  return first;
}

}  // namespace

std::vector<IssuedRun> IssueOrder(const StepProgram& step) {
  const Program program = Expand(step);
  const std::vector<OpId> first = FirstOps(step);
  const Fronts fronts(program, first);
  IdVector<OpId, std::vector<OpId>> early(program.ops.size());
  std::vector<IssuedRun> order;
  const auto add = [&](OpId op) {
    const auto behind = std::upper_bound(first.begin(), first.end(), op);
    const InstanceId instance = InstanceId::Of(behind - first.begin() - 1);
    const bool transfers = IsTransfer(program.ops[op].kind);
    if (order.empty() || order.back().instance != instance || order.back().transfers != transfers)
      order.push_back({instance, {}, transfers});
    order.back().ops.push_back(OpId::Of(op - first[instance.position()]));
  };
  for (OpId op : program.ops.ids()) {
    if (fronts.of(op) < op) early[fronts.of(op)].push_back(op);
  }
  for (OpId op : program.ops.ids()) {
    for (OpId receive : early[op]) add(receive);
    if (fronts.of(op) == op) add(op);
  }
  return order;
}

std::vector<GroupId> CallsInIssueOrder(const StepProgram& step,
                                       const std::vector<IssuedRun>& order) {
  std::vector<GroupId> calls;
  for (const IssuedRun& run : order) {
    const IdVector<OpId, Op>& ops = step.units[step.instances[run.instance].unit].ops;
    for (OpId op : run.ops) {
      if (ops[op].group >= 0) calls.push_back(ops[op].group);
    }
  }
  return calls;
}

Program WithRunsInTurn(const StepProgram& step, const std::vector<IssuedRun>& order,
                       Program program) {
  const std::vector<OpId> first = FirstOps(step);
  std::map<LaneId, OpId> before;  // the last operations of the run of computation before
  for (const IssuedRun& run : order) {
    std::map<LaneId, OpId> begin, end;
    for (OpId in_unit : run.ops) {
      const OpId op = first[run.instance.position()] + in_unit.value();
      begin.try_emplace(program.ops[op].lane, op);
      end[program.ops[op].lane] = op;
    }
    for (const auto& [lane, op] : begin) {
      WaitList& waits = program.ops[op].waits;
      for (const auto& [other, last] : before) {
        const auto at = std::lower_bound(waits.begin(), waits.end(), last);
        if (other != lane && (at == waits.end() || *at != last)) waits.insert(at, last);
      }
    }
    if (!run.transfers) before = std::move(end);
  }
  return program;
}

}  // namespace stretto

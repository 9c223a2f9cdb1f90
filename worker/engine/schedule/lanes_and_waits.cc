// SPDX-License-Identifier: Apache-2.0

// Gives every operation a lane and the shortest list of waits that preserves the results of the
// canonical order.
//
// Operations that compute go to lane "compute", and those of a group to the lane of the group. For
// the waits, WaitFinder walks the expanded program in order and remembers, per buffer and lane, the
// last operation that read the buffer and the last that wrote it. An operation needs the last
// conflicting operation of each other lane. Vector clocks then drop the waits that are already
// implied: clock[l] counts the operations of lane l that are known to come before, through the
// lane's own order or through an earlier wait.
//
// Units are templates that several instances share. A wait for an operation of the same instance
// goes to the unit (the union over its instances), and a wait for an earlier instance goes to the
// instance.

#include <algorithm>
#include <iterator>
#include <utility>

#include "worker/engine/program/memory_map.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

void AssignLanes(StepProgram* step) {
  IdVector<GroupId, bool> communicates(step->groups.size());
  for (const Unit& unit : step->units) {
    for (const Op& op : unit.ops) {
      if (op.group >= 0) communicates[op.group] = true;
    }
  }
  step->lanes.clear();
  const LaneId compute = step->lanes.Add({"compute"});
  IdVector<GroupId, LaneId> lane_of;
  for (GroupId group : step->groups.ids()) {
    lane_of.push_back(communicates[group] ? step->lanes.Add({LaneNameOf(step->groups[group])})
                                          : compute);
  }
  for (Unit& unit : step->units) {
    for (Op& op : unit.ops) op.lane = op.group >= 0 ? lane_of[op.group] : compute;
  }
}

// Walks the expansion in program order and finds, for every operation, the latest operation of each
// other lane that it conflicts with and that is not already known to come before it.
class WaitFinder {
 public:
  explicit WaitFinder(const Program& program)
      : program_(program),
        lanes_(program.lanes.size()),
        overlaps_(OverlapsOf(RegionsOf(program.buffers))),
        reads_(program.buffers.size() * lanes_, -1),
        writes_(reads_),
        last_on_lane_(lanes_, -1),
        position_(program.ops.size()),
        clocks_(program.ops.size() * lanes_, 0) {}

  // The operations that `index` must wait for. Call for 0, 1, 2, ... in order.
  std::vector<OpId> Next(OpId index) {
    const Op& op = program_.ops[index];
    needed_.assign(lanes_, OpId());
    for (BufferId id : op.in) Need(writes_, id);
    for (BufferId id : op.out) {
      Need(writes_, id);
      Need(reads_, id);
    }
    std::vector<OpId> waits = Prune(index, op.lane);
    for (BufferId id : op.in) At(reads_, id, op.lane) = index;
    for (BufferId id : op.out) At(writes_, id, op.lane) = index;
    return waits;
  }

 private:
  OpId& At(std::vector<OpId>& accesses, BufferId id, LaneId lane) {
    return accesses[id.position() * lanes_ + lane.position()];
  }
  int* Clock(OpId op) { return &clocks_[op.position() * lanes_]; }

  void Need(std::vector<OpId>& accesses, BufferId id) {
    NeedOne(accesses, id);
    for (BufferId other : overlaps_[id]) NeedOne(accesses, other);
  }
  // The last access of a lane is enough: lane order puts the earlier ones before it.
  void NeedOne(std::vector<OpId>& accesses, BufferId id) {
    for (LaneId lane : needed_.ids())
      needed_[lane] = std::max(needed_[lane], At(accesses, id, lane));
  }

  std::vector<OpId> Prune(OpId index, LaneId lane) {
    int* clock = Clock(index);
    auto merge = [&](OpId from) {
      for (size_t l = 0; l < lanes_; ++l) clock[l] = std::max(clock[l], Clock(from)[l]);
    };
    OpId& previous = last_on_lane_[lane];
    position_[index] = previous < 0 ? 0 : position_[previous] + 1;
    if (previous >= 0) merge(previous);
    previous = index;

    needed_[lane] = -1;  // lane order covers it
    std::vector<OpId> candidates = needed_, waits;
    std::sort(candidates.rbegin(), candidates.rend());
    // From the latest down: its clock may already include an earlier candidate of another lane.
    for (OpId candidate : candidates) {
      if (candidate < 0) break;
      const LaneId other = program_.ops[candidate].lane;
      if (clock[other.position()] > position_[candidate]) continue;
      waits.push_back(candidate);
      merge(candidate);
    }
    clock[lane.position()] = position_[index] + 1;
    std::sort(waits.begin(), waits.end());
    return waits;
  }

  const Program& program_;
  const size_t lanes_;
  const IdVector<BufferId, std::vector<BufferId>> overlaps_;
  std::vector<OpId> reads_, writes_;  // [buffer][lane]: the last
  IdVector<LaneId, OpId> last_on_lane_, needed_;
  IdVector<OpId, int> position_;
  std::vector<int> clocks_;  // [operation][lane]
};

}  // namespace

void AssignWaits(StepProgram* step) {
  const Program program = Expand(*step);
  WaitFinder finder(program);
  std::vector<OpId> base;  // first operation of each instance
  OpId index = 0;
  for (Instance& instance : step->instances) {
    Unit& unit = step->units[instance.unit];
    base.push_back(index);
    instance.waits.clear();
    for (OpId local = 0; local < unit.ops.next(); ++local, ++index) {
      WaitList inside;
      for (OpId wait : finder.Next(index)) {
        if (wait >= base.back()) {
          inside.push_back(wait - base.back().value());
          continue;
        }
        const auto from = std::upper_bound(base.begin(), base.end(), wait) - 1;
        instance.waits.push_back(
            {local, InstanceId::Of(from - base.begin()), wait - from->value()});
      }
      // A unit is a template and therefore has the waits of all its instances. An order that one
      // instance already knows from an earlier instance may need a wait in another.
      WaitList all;
      std::set_union(unit.ops[local].waits.begin(), unit.ops[local].waits.end(), inside.begin(),
                     inside.end(), std::back_inserter(all));
      unit.ops[local].waits = std::move(all);
    }
  }
}

absl::Status AssignLanesAndWaits(const EngineSpec&, StepProgram* step) {
  AssignLanes(step);
  AssignWaits(step);
  return absl::OkStatus();
}

}  // namespace stretto

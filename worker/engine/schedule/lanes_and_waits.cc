// Gives every operation a lane and the shortest list of waits that keeps the canonical order's
// results.
//
// Compute goes to lane 0 and collectives to lane 1. For the waits, WaitFinder walks the expanded
// program in order and remembers, per buffer and lane, the last operation that read and the last
// that wrote. An operation needs the last conflicting operation of each other lane. Vector clocks
// then drop what is implied already: clock[l] counts the operations of lane l that are known to
// come before, through the lane's own order or through a wait made earlier.
//
// Units are templates that several instances share, so a wait inside the instance goes to the unit
// (the union over its instances), and a wait for an earlier instance goes to the instance.

#include <algorithm>
#include <iterator>
#include <utility>

#include "worker/engine/program/memory_map.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {
namespace {

void AssignLanes(StepProgram* step) {
  bool communicates = false;
  for (Unit& unit : step->units) {
    for (Op& op : unit.ops) {
      op.lane = IsCollective(op.kind) ? 1 : 0;
      communicates = communicates || op.lane == 1;
    }
  }
  step->lanes = {{"compute", -1}};
  if (communicates) step->lanes.push_back({"comm.tp", 0});
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
  std::vector<int> Next(int index) {
    const Op& op = program_.ops[static_cast<size_t>(index)];
    needed_.assign(lanes_, -1);
    for (int id : op.in) Need(writes_, id);
    for (int id : op.out) {
      Need(writes_, id);
      Need(reads_, id);
    }
    std::vector<int> waits = Prune(index, op.lane);
    for (int id : op.in) At(reads_, id, op.lane) = index;
    for (int id : op.out) At(writes_, id, op.lane) = index;
    return waits;
  }

 private:
  int& At(std::vector<int>& accesses, int id, int lane) {
    return accesses[static_cast<size_t>(id) * lanes_ + static_cast<size_t>(lane)];
  }
  int* Clock(int op) { return &clocks_[static_cast<size_t>(op) * lanes_]; }

  void Need(std::vector<int>& accesses, int id) {
    NeedOne(accesses, id);
    for (int other : overlaps_[static_cast<size_t>(id)]) NeedOne(accesses, other);
  }
  void NeedOne(std::vector<int>& accesses, int id) {
    for (size_t lane = 0; lane < lanes_; ++lane) {
      needed_[lane] = std::max(needed_[lane], At(accesses, id, static_cast<int>(lane)));
    }
  }

  std::vector<int> Prune(int index, int lane) {
    int* clock = Clock(index);
    auto merge = [&](int from) {
      for (size_t l = 0; l < lanes_; ++l) clock[l] = std::max(clock[l], Clock(from)[l]);
    };
    int& previous = last_on_lane_[static_cast<size_t>(lane)];
    position_[static_cast<size_t>(index)] =
        previous < 0 ? 0 : position_[static_cast<size_t>(previous)] + 1;
    if (previous >= 0) merge(previous);
    previous = index;

    needed_[static_cast<size_t>(lane)] = -1;  // lane order covers it
    std::vector<int> candidates = needed_, waits;
    std::sort(candidates.rbegin(), candidates.rend());
    for (int candidate : candidates) {
      if (candidate < 0) break;
      const size_t other = static_cast<size_t>(program_.ops[static_cast<size_t>(candidate)].lane);
      if (clock[other] > position_[static_cast<size_t>(candidate)]) continue;
      waits.push_back(candidate);
      merge(candidate);
    }
    clock[lane] = position_[static_cast<size_t>(index)] + 1;
    std::sort(waits.begin(), waits.end());
    return waits;
  }

  const Program& program_;
  const size_t lanes_;
  const std::vector<std::vector<int>> overlaps_;
  std::vector<int> reads_, writes_, last_on_lane_, position_, clocks_, needed_;
};

}  // namespace

absl::Status AssignLanesAndWaits(const EngineSpec&, StepProgram* step) {
  AssignLanes(step);
  const Program program = Expand(*step);
  WaitFinder finder(program);
  std::vector<int> base;  // first operation of each instance
  int index = 0;
  for (size_t i = 0; i < step->instances.size(); ++i) {
    Instance& instance = step->instances[i];
    Unit& unit = step->units[static_cast<size_t>(instance.unit)];
    base.push_back(index);
    instance.waits.clear();
    for (size_t local = 0; local < unit.ops.size(); ++local, ++index) {
      std::vector<int> inside;
      for (int wait : finder.Next(index)) {
        if (wait >= base.back()) {
          inside.push_back(wait - base.back());
          continue;
        }
        const size_t from =
            static_cast<size_t>(std::upper_bound(base.begin(), base.end(), wait) - base.begin()) -
            1;
        instance.waits.push_back(
            {static_cast<int>(local), static_cast<int>(from), wait - base[from]});
      }
      // A unit is a template: it has the waits of all its instances. What one of them knows from an
      // earlier instance, another may have to wait for inside.
      std::vector<int> all;
      std::set_union(unit.ops[local].waits.begin(), unit.ops[local].waits.end(), inside.begin(),
                     inside.end(), std::back_inserter(all));
      unit.ops[local].waits = std::move(all);
    }
  }
  return absl::OkStatus();
}

}  // namespace stretto

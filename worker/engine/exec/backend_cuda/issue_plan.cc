// SPDX-License-Identifier: Apache-2.0

// Plans what is issued in a step. Merge interleaves the operations of the ranks on the device, one
// of each rank in turn, and makes a collective one item once all ranks have reached it. Issue then
// walks the items of an instance, turns waits into joins (within the instance) or carried marks
// (from an earlier one), and puts each item into its lane's current segment or starts a new one.

#include "worker/engine/exec/backend_cuda/issue_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/text.h"

namespace stretto::cuda {
namespace {

// Returns, for each operation of a program, whether a collective of another lane may run at the
// same time: one that neither completes before the operation nor starts after it.
absl::StatusOr<IdVector<OpId, bool>> UnderCollectives(const Program& program) {
  ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Build(program));
  const FirstAfter after(program, order);
  IdVector<LaneId, std::vector<int>> collectives(program.lanes.size());  // positions in it
  IdVector<LaneId, int> length(program.lanes.size());
  for (const Op& op : program.ops) {
    if (IsCollective(op.kind)) collectives[op.lane].push_back(length[op.lane]);
    ++length[op.lane];
  }
  IdVector<OpId, bool> under(program.ops.size());
  for (OpId op : program.ops.ids()) {
    for (LaneId lane = 0; lane < collectives.next() && !under[op]; ++lane) {
      if (program.ops[op].lane == lane) continue;
      const OpId first = after.of(op)[lane.position()];
      const int end = first == FirstAfter::kNever ? length[lane] : order.position(first);
      const auto next = std::lower_bound(collectives[lane].begin(), collectives[lane].end(),
                                         order.clock(op)[lane.position()]);
      under[op] = next != collectives[lane].end() && *next < end;
    }
  }
  return under;
}

class Planner {
 public:
  explicit Planner(const IdVector<LocalRank, RankProgram>& ranks)
      : ranks_(ranks), last_of_lane_(ranks[0].program->lanes.size()) {
    for (const RankProgram& rank : ranks) {
      places_.emplace_back(rank.program->ops.size());
      awaited_.emplace_back(rank.program->ops.size());
    }
  }

  absl::StatusOr<IssuePlan> Plan(bool leave_room) {
    for (LocalRank r : ranks_.ids()) RETURN_IF_ERROR(Check(r));
    for (const RankProgram& rank : ranks_) {
      under_.emplace_back(rank.program->ops.size());
      if (!leave_room) continue;
      ASSIGN_OR_RETURN(under_.back(), UnderCollectives(*rank.program));
    }
    IdVector<LocalRank, OpId> next(ranks_.size(), 0);
    for (const Instance& source : ranks_[0].step->instances) {
      IssuedInstance instance{source.unit, source.micro_batches, next, {}, {}};
      for (LocalRank r : ranks_.ids())
        next[r] = next[r] + ranks_[r].step->units[source.unit].ops.size();
      RETURN_IF_ERROR(Merge(next, &instance));
      plan_.instances.push_back(std::move(instance));
      Issue(&plan_.instances.back());
    }
    return std::move(plan_);
  }

 private:
  // The place of an operation: an instance, a position in it, and its segment.
  struct Place {
    int instance = -1, position = -1, segment = -1;
  };

  const Op& OpOf(RankOp of) const { return ranks_[of.rank].program->ops[of.op]; }
  Place& PlaceOf(RankOp of) { return places_[of.rank][of.op]; }

  absl::Status Check(LocalRank r) {
    const auto& [step, program] = ranks_[r];
    size_t ops = 0;
    for (const Instance& instance : step->instances)
      ops += step->units.at(instance.unit).ops.size();
    const size_t buffers = BufferMap(*step).size();
    if (ops != program->ops.size() || buffers != program->buffers.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "program of ", program->ops.size(), " operations and ", program->buffers.size(),
          " buffers, expected the expansion of its units: ", ops, " and ", buffers));
    }
    const auto same = [](const Instance& a, const Instance& b) {
      return a.unit == b.unit && a.micro_batches == b.micro_batches;
    };
    const auto& first = ranks_[0].step->instances;
    if (!std::equal(first.begin(), first.end(), step->instances.begin(), step->instances.end(),
                    same)) {
      return absl::InvalidArgumentError(absl::StrCat("ranks 0 and ", r.value(),
                                                     " of the device: found "
                                                     "other instances, expected the same"));
    }
    for (OpId op : program->ops.ids()) {
      for (OpId wait : program->ops[op].waits) {
        awaited_[r][wait] = true;
        if (wait < op) continue;
        return absl::InvalidArgumentError(absl::StrCat(PrintOp(*program, op),
                                                       ": waits for operation ", wait.value(),
                                                       ", expected an earlier one"));
      }
    }
    return absl::OkStatus();
  }

  // The ranks take turns, operation by operation, and wait for each other at collectives.
  absl::Status Merge(const IdVector<LocalRank, OpId>& end, IssuedInstance* instance) {
    IdVector<LocalRank, OpId> next = instance->first;
    while (true) {
      bool moved = false;
      for (LocalRank r : ranks_.ids()) {
        if (next[r] == end[r] || IsCollective(OpOf({r, next[r]}).kind)) continue;
        Add({{r, next[r]}}, instance);
        ++next[r];
        moved = true;
      }
      if (moved) continue;
      std::vector<RankOp> collective;
      for (LocalRank r : ranks_.ids()) {
        if (next[r] == end[r]) continue;
        collective.push_back({r, next[r]});
        ++next[r];
      }
      if (collective.empty()) return absl::OkStatus();
      RETURN_IF_ERROR(CheckCollective(collective));
      Add(std::move(collective), instance);
    }
  }

  absl::Status CheckCollective(const std::vector<RankOp>& ops) const {
    for (const RankOp& of : ops) {
      const Op &a = OpOf(ops[0]), &b = OpOf(of);
      if (ops.size() == ranks_.size() && a.kind == b.kind && a.lane == b.lane && a.tag == b.tag)
        continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "ranks of the device: found ", PrintOp(*ranks_[ops[0].rank].program, ops[0].op),
          " on rank ", ops[0].rank.value(), ", expected the same collective on every rank"));
    }
    return absl::OkStatus();
  }

  void Add(std::vector<RankOp> ops, IssuedInstance* instance) {
    Item item;
    item.lane = OpOf(ops[0]).lane;
    item.ops = std::move(ops);
    for (const RankOp& of : item.ops) {
      item.under_collective |= !IsCollective(OpOf(of).kind) && under_[of.rank][of.op];
      PlaceOf(of).instance = std::ssize(plan_.instances);
      PlaceOf(of).position = std::ssize(instance->items);
    }
    instance->items.push_back(std::move(item));
  }

  void Issue(IssuedInstance* instance) {
    const int number = std::ssize(plan_.instances) - 1;
    for (size_t k = 0; k < instance->items.size(); ++k) {
      Item* item = &instance->items[k];
      std::vector<RankOp>& previous = last_of_lane_[item->lane];
      const bool first = previous.empty() || PlaceOf(previous[0]).instance != number;
      if (first) instance->lanes.push_back(item->lane);
      if (first && !previous.empty()) Carry(previous[0], item);
      for (const RankOp& of : item->ops) {
        for (OpId wait : OpOf(of).waits) Wait({of.rank, wait}, number, instance, item);
      }
      Enter(item, first ? std::vector<RankOp>{} : previous);
      previous = item->ops;
    }
    std::sort(instance->lanes.begin(), instance->lanes.end());
    // A segment's last item is known only after all items have been placed.
    for (Item& item : instance->items) {
      const Segment& segment = plan_.segments[PlaceOf(item.ops[0]).segment];
      if (segment.ops.back() == item.ops.back()) item.end_mark = segment.end_mark;
    }
  }

  void Wait(RankOp producer, int instance_number, IssuedInstance* instance, Item* item) {
    const Place& place = PlaceOf(producer);
    if (place.instance != instance_number) return Carry(producer, item);
    AddOnce(place.position, &item->joins);
    instance->items[place.position].awaited = true;
  }

  void Carry(RankOp producer, Item* item) {
    AddOnce(plan_.segments[PlaceOf(producer).segment].end_mark, &item->carried);
  }

  static void AddOnce(int value, std::vector<int>* values) {
    if (std::find(values->begin(), values->end(), value) == values->end()) values->push_back(value);
  }

  // Puts the item into the segment of `previous` on its lane, or into a new segment.
  void Enter(Item* item, const std::vector<RankOp>& previous) {
    const bool waits = !item->joins.empty() || !item->carried.empty();
    const bool awaited = std::any_of(previous.begin(), previous.end(),
                                     [&](const RankOp& of) { return awaited_[of.rank][of.op]; });
    int segment = previous.empty() ? -1 : PlaceOf(previous[0]).segment;
    if (segment < 0 || waits || awaited || !SameKind(previous[0], item->ops[0])) {
      Segment fresh;
      fresh.lane = item->lane;
      // Without waits the two segments are adjacent in time, so one mark serves both.
      if (segment >= 0 && !waits) {
        fresh.begin_mark = plan_.segments[segment].end_mark;
      } else {
        fresh.begin_mark = item->begin_mark = plan_.marks++;
      }
      fresh.end_mark = plan_.marks++;
      segment = std::ssize(plan_.segments);
      plan_.segments.push_back(std::move(fresh));
    }
    for (const RankOp& of : item->ops) {
      PlaceOf(of).segment = segment;
      plan_.segments[segment].ops.push_back(of);
    }
  }

  bool SameKind(RankOp a, RankOp b) const {
    const Op &x = OpOf(a), &y = OpOf(b);
    return IsCollective(x.kind) == IsCollective(y.kind) && x.tag.phase == y.tag.phase;
  }

  const IdVector<LocalRank, RankProgram>& ranks_;
  IssuePlan plan_;
  IdVector<LocalRank, IdVector<OpId, Place>> places_;
  IdVector<LocalRank, IdVector<OpId, bool>> awaited_;   // by another lane
  IdVector<LocalRank, IdVector<OpId, bool>> under_;     // collectives
  IdVector<LaneId, std::vector<RankOp>> last_of_lane_;  // the last item's operations
};

}  // namespace

absl::StatusOr<IssuePlan> PlanIssue(const IdVector<LocalRank, RankProgram>& ranks,
                                    bool leave_room) {
  return Planner(ranks).Plan(leave_room);
}

int StagingSlots(const StepProgram& step) {
  const auto distinct = [](const std::vector<int>& micro_batches, int slots) {
    std::set<int> taken;
    return std::all_of(micro_batches.begin(), micro_batches.end(),
                       [&](int micro_batch) { return taken.insert(micro_batch % slots).second; });
  };
  int slots = 1;
  while (!std::all_of(step.instances.begin(), step.instances.end(), [&](const Instance& instance) {
    return distinct(instance.micro_batches, slots);
  })) {
    ++slots;
  }
  return slots;
}

int AddressPeriod(const StepProgram& step) {
  int period = StagingSlots(step);
  for (const Buffer& buffer : step.buffers) {
    if (buffer.slots != kPerMicroBatch) period = std::lcm(period, buffer.slots);
  }
  return period;
}

std::vector<int> ShapeOf(const IssuedInstance& instance, int period) {
  std::vector<int> shape = {instance.unit.value()};
  for (int micro_batch : instance.micro_batches) shape.push_back(micro_batch % period);
  for (const Item& item : instance.items) {
    const int carried = std::ssize(item.carried), joins = std::ssize(item.joins);
    shape.insert(shape.end(), {carried, item.begin_mark >= 0 ? 1 : 0, item.end_mark >= 0 ? 1 : 0,
                               item.under_collective ? 1 : 0, joins});
    shape.insert(shape.end(), item.joins.begin(), item.joins.end());
  }
  return shape;
}

}  // namespace stretto::cuda

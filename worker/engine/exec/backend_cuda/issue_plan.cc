// SPDX-License-Identifier: Apache-2.0

// Plans what is issued in a step. The runs of operations are those of one rank's order of issue, or
// of all ranks of the device merged. Issue then walks the items of an instance, turns waits into
// joins (within the instance) or carried marks (from an earlier one), and puts each item into its
// lane's current segment or starts a new one. Stage finds the buffers of micro-batches that
// instances use.

#include "worker/engine/exec/backend_cuda/issue_plan.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_cuda/merge_ranks.h"
#include "worker/engine/exec/backend_cuda/unit_ops.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/issue_order.h"
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

// The order of issue of the only rank of a device.
std::vector<MergedRun> RunsOf(const StepProgram& step) {
  const UnitOps units(step);
  std::vector<MergedRun> runs;
  for (const IssuedRun& run : IssueOrder(step)) {
    MergedRun& made = runs.emplace_back();
    for (OpId op : run.ops) made.push_back({{0, units.first(run.instance) + op.value()}});
  }
  return runs;
}

class Planner {
 public:
  explicit Planner(const IdVector<LocalRank, RankProgram>& ranks) : ranks_(ranks) {
    for (const RankProgram& rank : ranks) {
      places_.emplace_back(rank.program->ops.size());
      awaited_.emplace_back(rank.program->ops.size());
      units_.emplace_back(*rank.step);
    }
  }

  absl::StatusOr<IssuePlan> Plan(bool leave_room) {
    for (LocalRank r : ranks_.ids()) RETURN_IF_ERROR(Check(r));
    for (const RankProgram& rank : ranks_) {
      NameLanes(*rank.program);
      under_.emplace_back(rank.program->ops.size());
      if (!leave_room) continue;
      ASSIGN_OR_RETURN(under_.back(), UnderCollectives(*rank.program));
    }
    last_of_lane_.resize(plan_.lanes.size());
    std::vector<MergedRun> runs;
    if (ranks_.size() == 1) {
      runs = RunsOf(*ranks_[0].step);
    } else {
      ASSIGN_OR_RETURN(runs, MergeRanks(ranks_));
    }
    for (MergedRun& run : runs) {
      IssuedInstance instance;
      for (std::vector<RankOp>& ops : run) Add(std::move(ops), &instance);
      instance.transfers = ranks_.size() == 1 && !instance.items.empty() &&
                           IsTransfer(OpOf(instance.items[0].ops[0]).kind);
      Stage(&instance);
      plan_.instances.push_back(std::move(instance));
      Issue(&plan_.instances.back());
    }
    std::sort(plan_.staged.begin(), plan_.staged.end());
    while (!SlotsApart()) ++plan_.staging_slots;
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

  void NameLanes(const Program& program) {
    IdVector<LaneId, LaneId>& lane_of = plan_.lane_of.emplace_back();
    for (const Lane& lane : program.lanes) {
      const auto known = std::find(plan_.lanes.begin(), plan_.lanes.end(), lane.name);
      lane_of.push_back(LaneId::Of(known - plan_.lanes.begin()));
      if (known == plan_.lanes.end()) plan_.lanes.push_back(lane.name);
    }
  }

  void Add(std::vector<RankOp> ops, IssuedInstance* instance) {
    Item item;
    item.lane = plan_.lane_of[ops[0].rank][OpOf(ops[0]).lane];
    item.ops = std::move(ops);
    for (const RankOp& of : item.ops) {
      item.under_collective |= !IsCollective(OpOf(of).kind) && under_[of.rank][of.op];
      PlaceOf(of).instance = std::ssize(plan_.instances);
      PlaceOf(of).position = std::ssize(instance->items);
    }
    instance->items.push_back(std::move(item));
  }

  // Finds the micro-batches whose own buffers the instance uses.
  void Stage(IssuedInstance* instance) {
    std::set<int> used, written;
    for (const Item& item : instance->items) {
      for (const RankOp& of : item.ops) {
        const Op& op = units_[of.rank].of(of.op);
        const int micro_batch = units_[of.rank].Find(of.op).micro_batch;
        const auto staged = [&](BufferId id) {
          return ranks_[of.rank].step->buffers[id].slots == kPerMicroBatch;
        };
        const bool writes = std::any_of(op.out.begin(), op.out.end(), staged);
        if (!writes && std::none_of(op.in.begin(), op.in.end(), staged)) continue;
        used.insert(micro_batch);
        if (writes) written.insert(micro_batch);
        AddOnce(item.lane, &plan_.staged);
      }
    }
    instance->micro_batches.assign(used.begin(), used.end());
    instance->written.assign(written.begin(), written.end());
  }

  bool SlotsApart() const {
    return std::all_of(
        plan_.instances.begin(), plan_.instances.end(), [&](const IssuedInstance& instance) {
          std::set<int> taken;
          return std::all_of(instance.micro_batches.begin(), instance.micro_batches.end(),
                             [&](int mb) { return taken.insert(mb % plan_.staging_slots).second; });
        });
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

  template <class T>
  static void AddOnce(T value, std::vector<T>* values) {
    if (std::find(values->begin(), values->end(), value) == values->end()) values->push_back(value);
  }

  // Puts the item into the segment of `previous` on its lane, or into a new segment.
  void Enter(Item* item, const std::vector<RankOp>& previous) {
    const bool waits = !item->joins.empty() || !item->carried.empty();
    const bool awaited = std::any_of(previous.begin(), previous.end(),
                                     [&](const RankOp& of) { return awaited_[of.rank][of.op]; });
    int segment = previous.empty() ? -1 : PlaceOf(previous[0]).segment;
    if (segment < 0 || waits || awaited || !ComputeAlike(previous[0], item->ops[0])) {
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

  bool ComputeAlike(RankOp a, RankOp b) const {
    const Op &x = OpOf(a), &y = OpOf(b);
    return !IsCollective(x.kind) && !IsCollective(y.kind) && x.tag.phase == y.tag.phase;
  }

  const IdVector<LocalRank, RankProgram>& ranks_;
  IdVector<LocalRank, UnitOps> units_;
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

std::vector<int> ShapeOf(const IdVector<LocalRank, RankProgram>& ranks, const IssuePlan& plan,
                         const IssuedInstance& instance) {
  IdVector<LocalRank, UnitOps> units;
  for (const RankProgram& rank : ranks) units.emplace_back(*rank.step);
  std::vector<int> shape;
  for (const Item& item : instance.items) {
    for (const RankOp& of : item.ops) {
      const UnitOps::Place at = units[of.rank].Find(of.op);
      shape.insert(shape.end(), {of.rank.value(), at.unit.value(), at.position.value()});
      const Op& op = units[of.rank].of(of.op);
      for (const BufferList* ids : {&op.in, &op.out}) {
        for (BufferId id : *ids) {
          const int slots = ranks[of.rank].step->buffers[id].slots;
          const int copies = slots == kPerMicroBatch ? plan.staging_slots : slots;
          shape.push_back(std::max(at.micro_batch, 0) % copies);
        }
      }
    }
    const int carried = std::ssize(item.carried), joins = std::ssize(item.joins);
    shape.insert(shape.end(), {carried, item.begin_mark >= 0 ? 1 : 0, item.end_mark >= 0 ? 1 : 0,
                               item.under_collective ? 1 : 0, joins});
    shape.insert(shape.end(), item.joins.begin(), item.joins.end());
  }
  return shape;
}

}  // namespace stretto::cuda

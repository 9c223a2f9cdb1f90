// SPDX-License-Identifier: Apache-2.0

// The ranks take turns, one operation each: the first in program order of which all waits are done
// and, if it communicates, that is next on its lane on all members. Operations of the instances up
// to a number may be taken. When all of them are, a run ends; when none can be, the ranks need one
// instance more.

#include "worker/engine/exec/backend_cuda/merge_ranks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/collective_op.h"
#include "worker/engine/program/text.h"

namespace stretto::cuda {
namespace {

absl::Status Refused(const std::string& text) {
  return absl::InvalidArgumentError(absl::StrCat("ranks of the device: ", text));
}

class Merger {
 public:
  explicit Merger(const IdVector<LocalRank, RankProgram>& ranks) : ranks_(ranks) {}

  absl::StatusOr<std::vector<MergedRun>> Merge() {
    RETURN_IF_ERROR(MakeStates());
    size_t longest = 0;
    for (const RankProgram& rank : ranks_) longest = std::max(longest, rank.step->instances.size());
    std::vector<MergedRun> runs(1);
    for (InstanceId instance : IdRange<InstanceId>(longest)) {
      Allow(instance);
      RETURN_IF_ERROR(TakeTurns(&runs.back()));
      if (AllDone()) runs.emplace_back();
    }
    if (!runs.back().empty() || !AllDone()) return Refused(Stuck());
    runs.pop_back();
    return runs;
  }

 private:
  // A member of a group, and the group on that member.
  struct Member {
    LocalRank rank;
    GroupId group;
  };
  struct State {
    IdVector<LaneId, std::vector<OpId>> lanes;
    IdVector<LaneId, size_t> next;      // on the lane
    IdVector<GroupId, LaneId> lane_of;  // -1: it has no operation
    IdVector<GroupId, std::vector<Member>> members;
    IdVector<OpId, bool> done;
    OpId end = 0;   // of what may be taken
    int taken = 0;  // operations
  };

  const Program& At(LocalRank r) const { return *ranks_[r].program; }

  absl::Status MakeStates() {
    std::map<Rank, LocalRank> local;
    for (LocalRank r : ranks_.ids()) local[At(r).rank] = r;
    for (LocalRank r : ranks_.ids()) {
      const Program& program = At(r);
      State state;
      state.lanes.resize(program.lanes.size());
      state.next.resize(program.lanes.size());
      state.lane_of.resize(program.groups.size());
      state.members.resize(program.groups.size());
      state.done.resize(program.ops.size());
      for (OpId op : program.ops.ids()) {
        const Op& of = program.ops[op];
        state.lanes[of.lane].push_back(op);
        if (of.group >= 0) state.lane_of[of.group] = of.lane;
      }
      for (GroupId group : program.groups.ids()) {
        for (Rank member : program.groups[group].ranks) {
          const auto found = local.find(member);
          const GroupId theirs =
              found == local.end() ? GroupId() : GroupOf(found->second, program.groups[group]);
          if (theirs >= 0) {
            state.members[group].push_back({found->second, theirs});
            continue;
          }
          return Refused(absl::StrCat(
              "found no rank ", member.value(), " of group ", program.groups[group].name,
              " with ranks ", PrintRanks(program.groups[group].ranks), ", expected all of them"));
        }
      }
      states_.push_back(std::move(state));
    }
    return absl::OkStatus();
  }

  // Returns the same group on a rank; -1: it has none.
  GroupId GroupOf(LocalRank r, const Group& group) const {
    const IdVector<GroupId, Group>& groups = At(r).groups;
    const auto found = std::find(groups.begin(), groups.end(), group);
    return found == groups.end() ? GroupId() : GroupId::Of(found - groups.begin());
  }

  void Allow(InstanceId instance) {
    for (LocalRank r : ranks_.ids()) {
      const StepProgram& step = *ranks_[r].step;
      if (!step.instances.Has(instance)) continue;
      states_[r].end = states_[r].end + std::ssize(step.units[step.instances[instance].unit].ops);
    }
  }

  bool AllDone() const {
    return std::all_of(states_.begin(), states_.end(),
                       [](const State& state) { return state.end == state.taken; });
  }

  absl::Status TakeTurns(MergedRun* run) {
    for (bool moved = true; moved;) {
      moved = false;
      for (LocalRank r : ranks_.ids()) {
        const OpId op = FirstReady(r);
        if (op < 0) continue;
        RETURN_IF_ERROR(Take({r, op}, run));
        moved = true;
      }
    }
    return absl::OkStatus();
  }

  // Returns the next operation of a lane if its waits are done, otherwise -1.
  OpId Next(LocalRank r, LaneId lane) const {
    const State& state = states_[r];
    if (lane < 0 || state.next[lane] == state.lanes[lane].size()) return -1;
    const OpId op = state.lanes[lane][state.next[lane]];
    const WaitList& waits = At(r).ops[op].waits;
    const auto done = [&](OpId wait) { return state.done[wait]; };
    return op < state.end && std::all_of(waits.begin(), waits.end(), done) ? op : OpId();
  }
  OpId NextOf(const Member& member) const {
    const OpId op = Next(member.rank, states_[member.rank].lane_of[member.group]);
    return op >= 0 && At(member.rank).ops[op].group == member.group ? op : OpId();
  }

  OpId FirstReady(LocalRank r) const {
    OpId first;
    for (LaneId lane : At(r).lanes.ids()) {
      const OpId op = Next(r, lane);
      if (op < 0 || (first >= 0 && first < op)) continue;
      const GroupId group = At(r).ops[op].group;
      const auto ready = [&](const Member& member) { return NextOf(member) >= 0; };
      if (group >= 0) {
        const std::vector<Member>& members = states_[r].members[group];
        if (!std::all_of(members.begin(), members.end(), ready)) continue;
      }
      first = op;
    }
    return first;
  }

  absl::Status Take(RankOp at, MergedRun* run) {
    std::vector<RankOp> item = {at};
    if (const GroupId group = At(at.rank).ops[at.op].group; group >= 0) {
      item.clear();
      for (const Member& member : states_[at.rank].members[group]) {
        item.push_back({member.rank, NextOf(member)});
        RETURN_IF_ERROR(SameCall(item[0], item.back()));
      }
    }
    for (const RankOp& of : item) {
      State& state = states_[of.rank];
      state.done[of.op] = true;
      ++state.next[At(of.rank).ops[of.op].lane];
      ++state.taken;
    }
    run->push_back(std::move(item));
    return absl::OkStatus();
  }

  std::string Name(RankOp at) const {
    return absl::StrCat(PrintOp(At(at.rank), at.op), " on rank ", At(at.rank).rank.value());
  }

  absl::Status SameCall(RankOp a, RankOp b) const {
    const Program &first = At(a.rank), &second = At(b.rank);
    if (CallOf(first, first.ops[a.op]) == CallOf(second, second.ops[b.op])) return absl::OkStatus();
    return Refused(
        absl::StrCat("found ", Name(a), " and ", Name(b), ", expected the same collective"));
  }

  std::string Stuck() const {
    for (LocalRank r : ranks_.ids()) {
      for (OpId op : At(r).ops.ids()) {
        if (!states_[r].done[op])
          return absl::StrCat("found ", Name({r, op}),
                              ", for which nothing on the device comes,"
                              " expected its waits and the same collective on all members");
      }
    }
    return "found no operation, expected one";
  }

  const IdVector<LocalRank, RankProgram>& ranks_;
  IdVector<LocalRank, State> states_;
};

}  // namespace

absl::StatusOr<std::vector<MergedRun>> MergeRanks(const IdVector<LocalRank, RankProgram>& ranks) {
  return Merger(ranks).Merge();
}

}  // namespace stretto::cuda

// SPDX-License-Identifier: Apache-2.0

// Executes the programs of all ranks symbolically. Lanes advance while any of them can. A
// collective advances all members of its group at once, when each has the same one next. If nothing
// can advance and operations are left, that is a deadlock, and the operations at the heads of lanes
// are named.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/collective_op.h"
#include "worker/engine/program/text.h"
#include "worker/engine/program/verify.h"

namespace stretto {
namespace {

// A symbolic execution of all ranks. The next operation of a lane can run when its waits are done;
// a collective also needs to be next on all ranks of its group.
class Rehearsal {
 public:
  explicit Rehearsal(absl::Span<const Program> programs) {
    for (const Program& program : programs) {
      RankState& state =
          ranks_[ranks_.Add({.program = &program,
                             .lanes = IdVector<LaneId, std::vector<OpId>>(program.lanes.size()),
                             .head = IdVector<LaneId, size_t>(program.lanes.size()),
                             .lane_of = IdVector<GroupId, LaneId>(program.groups.size()),
                             .done = IdVector<OpId, bool>(program.ops.size())})];
      for (OpId index : program.ops.ids()) {
        const Op& op = program.ops[index];
        state.lanes[op.lane].push_back(index);
        if (op.group >= 0) state.lane_of[op.group] = op.lane;
      }
    }
  }

  absl::Status Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (Rank r : ranks_.ids()) {
        for (LaneId lane : ranks_[r].lanes.ids()) {
          while (true) {
            ASSIGN_OR_RETURN(const bool stepped, Step(r, lane));
            if (!stepped) break;
            moved = true;
          }
        }
      }
    }
    return CheckFinished();
  }

 private:
  struct RankState {
    const Program* program;
    IdVector<LaneId, std::vector<OpId>> lanes;
    IdVector<LaneId, size_t> head;
    IdVector<GroupId, LaneId> lane_of;  // -1: no operation of the group
    IdVector<OpId, bool> done;
  };

  // Returns the next operation of a lane if its waits are done, otherwise -1.
  const Program& ProgramOf(Rank r) const { return *ranks_[r].program; }
  OpId Ready(Rank r, LaneId lane) const {
    const RankState& state = ranks_[r];
    if (state.head[lane] == state.lanes[lane].size()) return -1;
    const OpId op = state.lanes[lane][state.head[lane]];
    for (OpId wait : ProgramOf(r).ops[op].waits) {
      if (!state.done[wait]) return -1;
    }
    return op;
  }

  void Finish(Rank r, LaneId lane, OpId op) {
    ranks_[r].done[op] = true;
    ++ranks_[r].head[lane];
  }

  absl::StatusOr<bool> Step(Rank r, LaneId lane) {
    const OpId op = Ready(r, lane);
    if (op < 0) return false;
    if (!IsCollective(ProgramOf(r).ops[op].kind)) {
      Finish(r, lane, op);
      return true;
    }
    // Every member must have the same operation next on the lane of the group of this name.
    const Group& group = ProgramOf(r).groups[ProgramOf(r).ops[op].group];
    IdVector<GroupRank, std::pair<LaneId, OpId>> members;  // lane, operation
    for (Rank member : group.ranks) {
      ASSIGN_OR_RETURN(const GroupId theirs, PeerGroup(r, group, member));
      const LaneId peer_lane = ranks_[member].lane_of[theirs];
      const OpId peer = peer_lane < 0 ? OpId() : Ready(member, peer_lane);
      // The peer's lane may still have other operations before it.
      if (peer < 0 || ProgramOf(member).ops[peer].group != theirs) return false;
      RETURN_IF_ERROR(SameCollective(r, op, member, peer));
      members.emplace_back(peer_lane, peer);
    }
    for (GroupRank i : members.ids()) Finish(group.ranks[i], members[i].first, members[i].second);
    return true;
  }

  // Returns the group of the same name on another member, which has the same ranks.
  absl::StatusOr<GroupId> PeerGroup(Rank r, const Group& group, Rank member) const {
    const auto error = [&](absl::string_view found, absl::string_view expected) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", member.value(), ": found ", found,
                                                     " in group ", group.name, ", expected ",
                                                     expected, ", as on rank ", r.value()));
    };
    if (ranks_.Has(member)) {
      const IdVector<GroupId, Group>& groups = ProgramOf(member).groups;
      for (GroupId id : groups.ids()) {
        if (groups[id].name != group.name) continue;
        if (groups[id].ranks == group.ranks) return id;
        return error(absl::StrCat("ranks ", PrintRanks(groups[id].ranks)), PrintRanks(group.ranks));
      }
    }
    return error("none", PrintRanks(group.ranks));
  }

  const Buffer& BufferAt(Rank r, BufferId id) const { return ProgramOf(r).buffers[id]; }

  // "8 f32 to 4 f32"
  std::string Payload(Rank r, OpId op) const {
    const Op& collective = ProgramOf(r).ops[op];
    const Buffer &in = BufferAt(r, BroughtBy(collective)),
                 &out = BufferAt(r, ReceivedBy(collective));
    const std::string sent = absl::StrCat(in.count(), " ", NameOf(in.dtype));
    if (&in == &out) return sent;
    return absl::StrCat(sent, " to ", out.count(), " ", NameOf(out.dtype));
  }

  absl::Status SameCollective(Rank r, OpId op, Rank peer_rank, OpId peer) const {
    // The outputs of collectives of one kind follow from their inputs.
    if (CallOf(ProgramOf(r), ProgramOf(r).ops[op]) ==
        CallOf(ProgramOf(peer_rank), ProgramOf(peer_rank).ops[peer])) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "collectives differ: rank ", r.value(), " is at '", PrintOp(ProgramOf(r), op), "' (",
        Payload(r, op), "), rank ", peer_rank.value(), " at '", PrintOp(ProgramOf(peer_rank), peer),
        "' (", Payload(peer_rank, peer), "), expected the same collective"));
  }

  absl::Status CheckFinished() const {
    std::string stuck;
    for (Rank r : ranks_.ids()) {
      for (LaneId lane : ranks_[r].lanes.ids()) {
        if (ranks_[r].head[lane] == ranks_[r].lanes[lane].size()) continue;
        absl::StrAppend(&stuck, stuck.empty() ? "" : "; ", "rank ", r.value(), " at '",
                        PrintOp(ProgramOf(r), ranks_[r].lanes[lane][ranks_[r].head[lane]]), "'");
      }
    }
    if (stuck.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("deadlock: nothing can proceed, with ", stuck));
  }

  IdVector<Rank, RankState> ranks_;
};

}  // namespace

absl::Status VerifyRanks(absl::Span<const Program> programs) {
  for (size_t r = 0; r < programs.size(); ++r) {
    const bool placed =
        programs[r].rank == Rank::Of(r) && std::cmp_equal(programs[r].world_size, programs.size());
    if (!placed) {
      return absl::InvalidArgumentError(
          absl::StrCat("program ", r, ": found rank ", programs[r].rank.value(), " of ",
                       programs[r].world_size, ", expected rank ", r, " of ", programs.size()));
    }
  }
  return Rehearsal(programs).Run();
}

}  // namespace stretto

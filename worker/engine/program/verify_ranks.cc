// SPDX-License-Identifier: Apache-2.0

// Executes the programs of all ranks symbolically. Lanes advance while any of them can. A
// collective advances all members of its group at once, when each has the same one next. If nothing
// can advance and operations are left, that is a deadlock, and the operations at the heads of lanes
// are named.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/text.h"
#include "worker/engine/program/verify.h"

namespace stretto {
namespace {

// A symbolic execution of all ranks. The next operation of a lane can run when its waits are done;
// a collective also needs to be next on all ranks of its group.
class Rehearsal {
 public:
  explicit Rehearsal(absl::Span<const Program> programs)
      : programs_(programs), ranks_(programs.size()) {
    for (size_t r = 0; r < programs.size(); ++r) {
      ranks_[r].lanes.resize(programs[r].lanes.size());
      ranks_[r].done.resize(programs[r].ops.size());
      for (OpId op : programs[r].ops.ids()) ranks_[r].lanes[programs[r].ops[op].lane].push_back(op);
      ranks_[r].head.resize(programs[r].lanes.size());
    }
  }

  absl::Status Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r) {
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
    IdVector<LaneId, std::vector<OpId>> lanes;
    IdVector<LaneId, size_t> head;
    IdVector<OpId, bool> done;
  };

  // Returns the next operation of a lane if its waits are done, otherwise -1.
  OpId Ready(size_t r, LaneId lane) const {
    const RankState& state = ranks_[r];
    if (state.head[lane] == state.lanes[lane].size()) return -1;
    const OpId op = state.lanes[lane][state.head[lane]];
    for (OpId wait : programs_[r].ops[op].waits) {
      if (!state.done[wait]) return -1;
    }
    return op;
  }

  void Finish(size_t r, LaneId lane, OpId op) {
    ranks_[r].done[op] = true;
    ++ranks_[r].head[lane];
  }

  absl::StatusOr<bool> Step(size_t r, LaneId lane) {
    const OpId op = Ready(r, lane);
    if (op < 0) return false;
    if (!IsCollective(programs_[r].ops[op].kind)) {
      Finish(r, lane, op);
      return true;
    }
    // The lane of the same name on every member must be ready with the same collective.
    const Program& mine = programs_[r];
    const Group& group = mine.groups[mine.lanes[lane].group];
    std::vector<std::pair<LaneId, OpId>> members;  // lane, operation
    for (int member : group.ranks) {
      ASSIGN_OR_RETURN(const LaneId peer_lane, PeerLane(r, lane, static_cast<size_t>(member)));
      RETURN_IF_ERROR(SameGroup(r, lane, static_cast<size_t>(member), peer_lane));
      const OpId peer = Ready(static_cast<size_t>(member), peer_lane);
      // On a lane that also computes, the peer may still have other operations before its
      // collective.
      if (peer < 0 || !IsCollective(programs_[member].ops[peer].kind)) return false;
      RETURN_IF_ERROR(SameCollective(r, op, static_cast<size_t>(member), peer));
      members.emplace_back(peer_lane, peer);
    }
    for (size_t i = 0; i < members.size(); ++i) {
      Finish(static_cast<size_t>(group.ranks[i]), members[i].first, members[i].second);
    }
    return true;
  }

  absl::StatusOr<LaneId> PeerLane(size_t r, LaneId lane, size_t member) const {
    const std::string& name = programs_[r].lanes[lane].name;
    if (member < programs_.size()) {
      const IdVector<LaneId, Lane>& lanes = programs_[member].lanes;
      for (LaneId peer : lanes.ids()) {
        if (lanes[peer].name == name && lanes[peer].group >= 0) return peer;
      }
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", member, ": found no communication lane ", name, ", expected one, as on rank ", r));
  }

  const std::vector<int>& RanksOf(size_t r, LaneId lane) const {
    const Program& program = programs_[r];
    return program.groups[program.lanes[lane].group].ranks;
  }

  absl::Status SameGroup(size_t r, LaneId lane, size_t peer_rank, LaneId peer_lane) const {
    const std::vector<int>& mine = RanksOf(r, lane);
    const std::vector<int>& theirs = RanksOf(peer_rank, peer_lane);
    if (mine == theirs) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("rank ", peer_rank, ": found ranks ",
                                                   absl::StrJoin(theirs, ","), " on lane ",
                                                   programs_[r].lanes[lane].name, ", expected ",
                                                   absl::StrJoin(mine, ","), ", as on rank ", r));
  }

  const Buffer& BufferAt(size_t r, BufferId id) const { return programs_[r].buffers[id]; }

  // "8 f32 to 4 f32"
  std::string Payload(size_t r, OpId op) const {
    const Op& collective = programs_[r].ops[op];
    const Buffer &in = BufferAt(r, collective.in[0]), &out = BufferAt(r, collective.out[0]);
    const std::string sent = absl::StrCat(in.count(), " ", NameOf(in.dtype));
    if (collective.in[0] == collective.out[0]) return sent;
    return absl::StrCat(sent, " to ", out.count(), " ", NameOf(out.dtype));
  }

  absl::Status SameCollective(size_t r, OpId op, size_t peer_rank, OpId peer) const {
    const Op& a = programs_[r].ops[op];
    const Op& b = programs_[peer_rank].ops[peer];
    // The outputs of collectives of one kind follow from their inputs.
    const Buffer &x = BufferAt(r, a.in[0]), &y = BufferAt(peer_rank, b.in[0]);
    if (a.kind == b.kind && a.tag == b.tag && a.attributes == b.attributes && x.dtype == y.dtype &&
        x.count() == y.count()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "collectives differ: rank ", r, " is at '", PrintOp(programs_[r], op), "' (",
        Payload(r, op), "), rank ", peer_rank, " at '", PrintOp(programs_[peer_rank], peer), "' (",
        Payload(peer_rank, peer), "), expected the same collective"));
  }

  absl::Status CheckFinished() const {
    std::string stuck;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (LaneId lane : ranks_[r].lanes.ids()) {
        if (ranks_[r].head[lane] == ranks_[r].lanes[lane].size()) continue;
        absl::StrAppend(&stuck, stuck.empty() ? "" : "; ", "rank ", r, " at '",
                        PrintOp(programs_[r], ranks_[r].lanes[lane][ranks_[r].head[lane]]), "'");
      }
    }
    if (stuck.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("deadlock: nothing can go on, with ", stuck));
  }

  absl::Span<const Program> programs_;
  std::vector<RankState> ranks_;
};

}  // namespace

absl::Status VerifyRanks(absl::Span<const Program> programs) {
  for (size_t r = 0; r < programs.size(); ++r) {
    const bool placed = programs[r].rank == static_cast<int>(r) &&
                        programs[r].world_size == static_cast<int>(programs.size());
    if (!placed) {
      return absl::InvalidArgumentError(
          absl::StrCat("program ", r, ": found rank ", programs[r].rank, " of ",
                       programs[r].world_size, ", expected rank ", r, " of ", programs.size()));
    }
  }
  return Rehearsal(programs).Run();
}

}  // namespace stretto

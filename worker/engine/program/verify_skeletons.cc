// SPDX-License-Identifier: Apache-2.0

// The rehearsal of skeletons needs no computation. A call of a rank is ready when as many calls of
// each group are done there as it counts, its own group included: a call that has started is not
// done. It starts when it is ready and, on a rank with an order of issue, all calls that were
// enqueued before it have started. It is done when it has started on all members. Whatever can
// start stays able to start, so the order in which the rehearsal tries calls does not matter.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/skeleton.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

class SkeletonRehearsal {
 public:
  explicit SkeletonRehearsal(absl::Span<const Skeleton* const> skeletons) : skeletons_(skeletons) {
    for (const Skeleton* skeleton : skeletons) {
      done_.push_back(IdVector<GroupId, int32_t>(skeleton->groups.size(), 0));
      started_.push_back(IdVector<GroupId, int32_t>(skeleton->groups.size(), 0));
      next_.push_back(0);
      peers_.push_back(IdVector<GroupId, std::vector<Peer>>(skeleton->groups.size()));
    }
  }

  absl::Status Run() {
    for (Rank r : done_.ids()) {
      for (GroupId group : At(r).groups.ids()) RETURN_IF_ERROR(FindPeers(r, group));
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank r : done_.ids()) {
        for (GroupId group : At(r).groups.ids()) {
          while (true) {
            ASSIGN_OR_RETURN(const bool stepped, Step(r, group));
            if (!stepped) break;
            moved = true;
          }
        }
      }
    }
    return CheckFinished();
  }

 private:
  // A member of a group, and the group on that member.
  struct Peer {
    Rank rank;
    GroupId group;
  };

  const Skeleton& At(Rank r) const { return *skeletons_[r.position()]; }

  // Returns the group of that name on a rank; -1: it has none.
  GroupId Find(Rank r, const std::string& name) const {
    if (!done_.Has(r)) return -1;
    const IdVector<GroupId, Group>& groups = At(r).groups;
    for (GroupId id : groups.ids()) {
      if (groups[id].name == name) return id;
    }
    return -1;
  }

  absl::Status FindPeers(Rank r, GroupId id) {
    const Group& group = At(r).groups[id];
    for (Rank member : group.ranks) {
      const GroupId theirs = Find(member, group.name);
      peers_[r][id].push_back({member, theirs});
      if (theirs >= 0 && At(member).groups[theirs].ranks == group.ranks) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", member.value(), ": found ",
          theirs < 0 ? "none" : PrintRanks(At(member).groups[theirs].ranks), " in group ",
          group.name, ", expected ", PrintRanks(group.ranks), ", as on rank ", r.value()));
    }
    return absl::OkStatus();
  }

  // Whether the waits of a call of a group are done on a rank. They include the calls of the group
  // before it.
  bool Ready(Rank r, GroupId group, size_t call) const {
    const Skeleton& skeleton = At(r);
    const size_t groups = skeleton.groups.size();
    if (call >= skeleton.calls[group].size()) return false;
    for (GroupId other : skeleton.groups.ids()) {
      if (done_[r][other] < skeleton.before[group][call * groups + other.position()]) return false;
    }
    return true;
  }

  // Whether the next call of a group has started on a rank. Starts what can start there.
  bool Started(Rank r, GroupId group) {
    const std::vector<GroupId>& issued = At(r).issued;
    if (issued.empty()) return Ready(r, group, done_[r][group]);
    for (; next_[r] < issued.size(); ++next_[r]) {
      int32_t& started = started_[r][issued[next_[r]]];
      if (!Ready(r, issued[next_[r]], started)) break;
      ++started;
    }
    return started_[r][group] > done_[r][group];
  }

  absl::StatusOr<bool> Step(Rank r, GroupId group) {
    const std::vector<Peer>& peers = peers_[r][group];
    for (const Peer& peer : peers) {
      if (!Started(peer.rank, peer.group)) return false;
    }
    for (const Peer& peer : peers) RETURN_IF_ERROR(SameCall(r, group, peer));
    for (const Peer& peer : peers) ++done_[peer.rank][peer.group];
    return true;
  }

  const Skeleton::Call& Next(Rank r, GroupId group) const {
    return At(r).calls[group][done_[r][group]];
  }
  std::string Place(Rank r, GroupId group) const {
    return absl::StrCat("rank ", r.value(), " at operation ", Next(r, group).op.value());
  }

  absl::Status SameCall(Rank r, GroupId group, const Peer& peer) const {
    if (Next(r, group).checksum == Next(peer.rank, peer.group).checksum) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("group ", At(r).groups[group].name, ", call ", done_[r][group], ": found ",
                     Place(r, group), " and ", Place(peer.rank, peer.group),
                     ", which differ, expected the same collective on every member"));
  }

  // What keeps a call that is ready from starting.
  std::string Behind(Rank r, GroupId group) const {
    const std::vector<GroupId>& issued = At(r).issued;
    if (next_[r] == issued.size() || issued[next_[r]] == group) return "";
    if (started_[r][group] > done_[r][group] || !Ready(r, group, done_[r][group])) return "";
    const GroupId first = issued[next_[r]];
    const Skeleton::Call& call = At(r).calls[first][started_[r][first]];
    return absl::StrCat(", enqueued behind operation ", call.op.value());
  }

  absl::Status CheckFinished() const {
    std::vector<std::string> stuck;
    for (Rank r : done_.ids()) {
      for (GroupId group : At(r).groups.ids()) {
        if (static_cast<size_t>(done_[r][group]) == At(r).calls[group].size()) continue;
        stuck.push_back(absl::StrCat(Place(r, group), " of group ", At(r).groups[group].name,
                                     Behind(r, group)));
      }
    }
    if (stuck.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("deadlock: nothing can proceed, with ", absl::StrJoin(stuck, "; ")));
  }

  const absl::Span<const Skeleton* const> skeletons_;
  IdVector<Rank, IdVector<GroupId, int32_t>> done_;     // calls
  IdVector<Rank, IdVector<GroupId, int32_t>> started_;  // calls, where the order of issue counts
  IdVector<Rank, size_t> next_;                         // number of calls in that order so far
  IdVector<Rank, IdVector<GroupId, std::vector<Peer>>> peers_;
};

}  // namespace

absl::Status VerifySkeletons(absl::Span<const Skeleton* const> skeletons) {
  return SkeletonRehearsal(skeletons).Run();
}

}  // namespace stretto

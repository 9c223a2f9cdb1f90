// SPDX-License-Identifier: Apache-2.0

// The clock of an operation (happens_before.h) counts, per lane, the operations that complete
// before it starts. All operations of a group are on one lane, so the count of a group is the
// number of its calls among the first operations of that lane. The rehearsal then needs no
// computation: a call of a rank is ready when as many calls of each group are done there as it
// counts, and it happens when it is ready on all members.

#include "worker/engine/program/skeleton.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/collective_op.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

constexpr int32_t kFormat = 0x534b4c31;  // "SKL1"

uint32_t ChecksumOf(const Program& program, const Op& op) { return Crc32c(CallOf(program, op)); }

class Writer {
 public:
  void Word(int32_t word) { bytes_.append(reinterpret_cast<const char*>(&word), sizeof(word)); }
  void Text(const std::string& text) {
    Word(static_cast<int32_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what Writer wrote. After a failure every result is 0 and ok() is false.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  int32_t Word() {
    int32_t word = 0;
    if (!Has(sizeof(word))) return 0;
    std::memcpy(&word, bytes_.data(), sizeof(word));
    bytes_.remove_prefix(sizeof(word));
    return word;
  }
  // A number of items of at least `size` bytes each, all of which are still to come.
  int32_t Count(size_t size) {
    const int32_t count = Word();
    if (count < 0 || !Has(count * size)) return Fail();
    return count;
  }
  std::string Text() {
    const int32_t size = Count(1);
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  bool Has(size_t size) {
    if (ok_ && bytes_.size() >= size) return true;
    Fail();
    return false;
  }
  int32_t Fail() {
    ok_ = false;
    bytes_ = {};
    return 0;
  }

  absl::string_view bytes_;
  bool ok_ = true;
};

class SkeletonRehearsal {
 public:
  explicit SkeletonRehearsal(absl::Span<const Skeleton* const> skeletons) : skeletons_(skeletons) {
    for (const Skeleton* skeleton : skeletons) {
      done_.push_back(IdVector<GroupId, int32_t>(skeleton->groups.size(), 0));
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

  // Whether the next call of a group may start on a rank.
  bool Ready(Rank r, GroupId group) const {
    const Skeleton& skeleton = At(r);
    const size_t next = done_[r][group], groups = skeleton.groups.size();
    if (next >= skeleton.calls[group].size()) return false;
    for (GroupId other : skeleton.groups.ids()) {
      if (done_[r][other] < skeleton.before[group][next * groups + other.position()]) return false;
    }
    return true;
  }

  absl::StatusOr<bool> Step(Rank r, GroupId group) {
    const std::vector<Peer>& peers = peers_[r][group];
    for (const Peer& peer : peers) {
      if (!Ready(peer.rank, peer.group)) return false;
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

  absl::Status CheckFinished() const {
    std::vector<std::string> stuck;
    for (Rank r : done_.ids()) {
      for (GroupId group : At(r).groups.ids()) {
        if (static_cast<size_t>(done_[r][group]) == At(r).calls[group].size()) continue;
        stuck.push_back(absl::StrCat(Place(r, group), " of group ", At(r).groups[group].name));
      }
    }
    if (stuck.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("deadlock: nothing can proceed, with ", absl::StrJoin(stuck, "; ")));
  }

  const absl::Span<const Skeleton* const> skeletons_;
  IdVector<Rank, IdVector<GroupId, int32_t>> done_;  // calls
  IdVector<Rank, IdVector<GroupId, std::vector<Peer>>> peers_;
};

}  // namespace

absl::StatusOr<Skeleton> SkeletonOf(const Program& program) {
  ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Build(program));
  const size_t groups = program.groups.size();
  Skeleton skeleton{.groups = program.groups,
                    .calls = IdVector<GroupId, std::vector<Skeleton::Call>>(groups),
                    .before = IdVector<GroupId, std::vector<int32_t>>(groups)};
  // For each group, its lane, and of each of its calls the position on that lane.
  IdVector<GroupId, LaneId> lane_of(groups);
  IdVector<GroupId, std::vector<int>> positions(groups);
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.group < 0) continue;
    lane_of[op.group] = op.lane;
    positions[op.group].push_back(order.position(id));
    skeleton.calls[op.group].push_back({ChecksumOf(program, op), id});
  }
  for (GroupId group : skeleton.groups.ids()) {
    for (size_t call = 0; call < skeleton.calls[group].size(); ++call) {
      const int* clock = order.clock(skeleton.calls[group][call].op);
      for (GroupId other : skeleton.groups.ids()) {
        const std::vector<int>& at = positions[other];
        const int passed = at.empty() ? 0 : clock[lane_of[other].position()];
        const auto count = std::lower_bound(at.begin(), at.end(), passed) - at.begin();
        // An operation counts itself on its own lane.
        skeleton.before[group].push_back(static_cast<int32_t>(count) - (other == group ? 1 : 0));
      }
    }
  }
  return skeleton;
}

std::string Pack(const Skeleton& skeleton) {
  Writer writer;
  writer.Word(kFormat);
  writer.Word(static_cast<int32_t>(skeleton.groups.size()));
  for (GroupId id : skeleton.groups.ids()) {
    writer.Text(skeleton.groups[id].name);
    writer.Word(static_cast<int32_t>(skeleton.groups[id].ranks.size()));
    for (Rank rank : skeleton.groups[id].ranks) writer.Word(rank.value());
  }
  for (GroupId id : skeleton.groups.ids()) {
    writer.Word(static_cast<int32_t>(skeleton.calls[id].size()));
    for (const Skeleton::Call& call : skeleton.calls[id]) {
      writer.Word(static_cast<int32_t>(call.checksum));
      writer.Word(call.op.value());
    }
    for (int32_t count : skeleton.before[id]) writer.Word(count);
  }
  return writer.Take();
}

absl::StatusOr<Skeleton> Unpack(absl::string_view bytes) {
  Reader reader(bytes);
  Skeleton skeleton;
  const bool known = reader.Word() == kFormat;
  const int32_t groups = known ? reader.Count(2 * sizeof(int32_t)) : 0;
  for (int32_t g = 0; g < groups; ++g) {
    Group group{reader.Text(), {}};
    const int32_t ranks = reader.Count(sizeof(int32_t));
    for (int32_t r = 0; r < ranks; ++r) group.ranks.push_back(Rank::Of(reader.Word()));
    skeleton.groups.push_back(std::move(group));
  }
  for (int32_t g = 0; g < groups && reader.ok(); ++g) {
    const int32_t calls = reader.Count((2 + groups) * sizeof(int32_t));
    std::vector<Skeleton::Call>& of_group = skeleton.calls.emplace_back();
    for (int32_t c = 0; c < calls; ++c) {
      const auto checksum = static_cast<uint32_t>(reader.Word());
      of_group.push_back({checksum, OpId::Of(reader.Word())});
    }
    std::vector<int32_t>& before = skeleton.before.emplace_back();
    for (int32_t i = 0; i < calls * groups; ++i) before.push_back(reader.Word());
  }
  if (known && reader.done()) return skeleton;
  return absl::InvalidArgumentError(absl::StrCat("skeleton of ", bytes.size(), " bytes: found ",
                                                 known ? "another length" : "another format",
                                                 ", expected that of this build"));
}

absl::Status VerifySkeletons(absl::Span<const Skeleton* const> skeletons) {
  return SkeletonRehearsal(skeletons).Run();
}

}  // namespace stretto

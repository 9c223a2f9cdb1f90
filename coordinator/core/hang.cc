// SPDX-License-Identifier: Apache-2.0

// A wait is a call that a rank has begun and not ended, and the peer that it waits for there. From
// a rank's wait there are three ways on. The peer has not begun the call: it is behind, so its own
// waits are followed. The peer waits in the same call for a third rank: so are its. Otherwise the
// peer has done its part, and what it sent did not arrive. A walk that comes back to a rank has
// gone around ranks that wait for each other in one call, or around ranks of several groups, whose
// last link is as good a place to look at as any.

#include "coordinator/core/hang.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stretto::coordinator {
namespace {

constexpr size_t kMostNamed = 4;  // of the ranks that wait

using Positions = std::map<int32_t, RankPosition>;

std::string Seconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Seconds(duration), "s");
}

const ChannelPosition* FindChannel(const RankPosition& position, const std::string& group) {
  for (const ChannelPosition& channel : position.channels) {
    if (channel.group == group) return &channel;
  }
  return nullptr;
}

// Returns the first call in which a rank waits for a peer, or null.
const ChannelPosition* WaitOf(const RankPosition& position) {
  for (const ChannelPosition& channel : position.channels) {
    if (channel.waiting && channel.peer >= 0) return &channel;
  }
  return nullptr;
}

bool HasBegun(const Positions& positions, int32_t rank, const ChannelPosition& call) {
  const auto found = positions.find(rank);
  if (found == positions.end()) return false;
  const ChannelPosition* channel = FindChannel(found->second, call.group);
  return channel != nullptr && channel->begun >= call.begun;
}

std::string CallText(const ChannelPosition& call) {
  return absl::StrCat("call ", call.begun, " of group ", call.group);
}

// "; rank 0 waits for it in call 277 of group tp.0": every rank that waits for `rank` itself.
std::string WaitersOf(const Positions& positions, int32_t rank) {
  std::vector<std::string> texts;
  for (const auto& [other, position] : positions) {
    if (other == rank) continue;
    for (const ChannelPosition& call : position.channels) {
      if (!call.waiting || call.peer != rank) continue;
      texts.push_back(absl::StrCat("rank ", other, " waits for it in ", CallText(call)));
      break;
    }
  }
  if (texts.empty()) return "";
  const size_t more = texts.size() > kMostNamed ? texts.size() - kMostNamed : 0;
  texts.resize(texts.size() - more);
  return absl::StrCat("; ", absl::StrJoin(texts, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more ranks do") : "");
}

std::string PlaceOf(const RankPosition& position) {
  std::string text = absl::StrCat(" in step ", position.step, ", ", position.phase);
  if (!position.operation.empty()) absl::StrAppend(&text, ", at ", position.operation);
  return text;
}

// Returns what is wrong with a rank by itself; empty if nothing is.
std::string Trouble(const RankPosition& position, const HangLimits& limits) {
  if (!position.attached) {
    if (position.still < limits.still) return "";
    return absl::StrCat("has not attached to its daemon ", Seconds(position.still),
                        " after its start");
  }
  if (position.frozen >= limits.still) {
    return absl::StrCat("hangs", PlaceOf(position), ": its process has shown no sign of life for ",
                        Seconds(position.frozen));
  }
  switch (position.activity) {
    case Activity::kOverdue:
      return absl::StrCat("hangs", PlaceOf(position), ": it takes longer than it has announced");
    case Activity::kComputing:
      if (position.still < limits.computing) return "";
      return absl::StrCat("hangs", PlaceOf(position), ": it has computed one operation for ",
                          Seconds(position.still));
    case Activity::kIdle:
    case Activity::kWorking:
      return "";
  }
  return "";
}

// Of the ranks that hang by themselves, the one that is least far, and frozen the longest.
std::optional<Hang> FindTroubled(const Positions& positions, const HangLimits& limits) {
  const RankPosition* worst = nullptr;
  Hang hang;
  for (const auto& [rank, position] : positions) {
    const std::string trouble = Trouble(position, limits);
    if (trouble.empty()) continue;
    if (worst != nullptr &&
        std::pair(position.step, -position.frozen) >= std::pair(worst->step, -worst->frozen)) {
      continue;
    }
    worst = &position;
    hang = {.rank = rank, .message = trouble};
  }
  if (worst == nullptr) return std::nullopt;
  hang.message += WaitersOf(positions, hang.rank);
  return hang;
}

Hang StandsStill(const Positions& positions, int32_t rank) {
  const RankPosition& position = positions.at(rank);
  const bool waits = WaitOf(position) != nullptr;
  return {.rank = rank,
          .message = absl::StrCat("hangs", PlaceOf(position), ": it has not moved for ",
                                  Seconds(position.still), waits ? "" : " and waits for no rank",
                                  WaitersOf(positions, rank))};
}

// What `peer` sent to `rank`, or `rank` to `peer`, does not arrive.
Hang NetworkCut(const Positions& positions, int32_t rank, const ChannelPosition& call) {
  const RankPosition& position = positions.at(rank);
  std::string message = absl::StrCat(
      "waits", PlaceOf(position), ": ",
      call.receives ? "it has received nothing from rank " : "it could not send to rank ",
      call.peer, " for ", Seconds(position.still), " in ", CallText(call),
      ", which that rank has begun: check the network between them");
  const ChannelPosition* back = FindChannel(positions.at(call.peer), call.group);
  if (back->waiting && back->begun == call.begun && back->peer == rank) {
    absl::StrAppend(
        &message, "; rank ", call.peer,
        back->receives ? " has received nothing from rank " : " could not send to rank ", rank,
        " either");
  }
  return {.rank = rank, .message = message};
}

// Returns a rank with a wait if there is one, else the one that is least far.
int32_t WhereToBegin(const Positions& positions) {
  int32_t least = positions.begin()->first;
  for (const auto& [rank, position] : positions) {
    if (WaitOf(position) != nullptr) return rank;
    if (position.step < positions.at(least).step) least = rank;
  }
  return least;
}

Hang FollowWaits(const Positions& positions) {
  std::set<int32_t> seen;
  int32_t rank = WhereToBegin(positions);
  while (true) {
    const ChannelPosition* call = WaitOf(positions.at(rank));
    // A peer without a position has ended; then its closed connections end the wait.
    if (call == nullptr || positions.count(call->peer) == 0) return StandsStill(positions, rank);
    const int32_t peer = call->peer;
    seen.insert(rank);
    if (HasBegun(positions, peer, *call)) {
      const ChannelPosition* next = WaitOf(positions.at(peer));
      const bool same_call =
          next != nullptr && next->group == call->group && next->begun == call->begun;
      if (!same_call || seen.count(next->peer) != 0) return NetworkCut(positions, rank, *call);
    } else if (seen.count(peer) != 0) {
      return StandsStill(positions, peer);
    }
    rank = peer;
  }
}

}  // namespace

std::optional<Hang> FindHang(const std::set<int32_t>& ranks, const Positions& positions,
                             const HangLimits& limits) {
  if (std::optional<Hang> hang = FindTroubled(positions, limits)) return hang;
  if (ranks.empty() || positions.size() < ranks.size()) return std::nullopt;
  for (const auto& [rank, position] : positions) {
    if (!position.attached || position.still < limits.still) return std::nullopt;
    const bool busy =
        position.activity == Activity::kComputing || position.activity == Activity::kWorking;
    if (busy) return std::nullopt;
  }
  return FollowWaits(positions);
}

}  // namespace stretto::coordinator

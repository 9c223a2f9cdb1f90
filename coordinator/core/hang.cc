// SPDX-License-Identifier: Apache-2.0

// A wait is a call that a rank has begun and not ended. It is for the peer that the rank names
// there; a collective of a device names none, and is for all members that have not begun it. From a
// rank's wait there are three ways on. Somebody that it waits for has not begun the call: that rank
// is behind, so its own waits are followed. The peer waits in the same call for a third rank: so
// are its. Otherwise the others have done their part, and what they sent did not arrive. Waits for
// a rank that is behind are followed before all others, because they tell ranks apart. A walk that
// comes back to a rank has gone around ranks that wait for each other in one call, or around ranks
// of several groups, whose last link is as good a place to look at as any.

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

bool HasBegun(const RankPosition& position, const ChannelPosition& call) {
  const ChannelPosition* channel = FindChannel(position, call.group);
  return channel != nullptr && channel->begun >= call.begun;
}

// Whether a rank that waits in a call waits for `other`, by all that its peers' positions tell.
bool WaitsFor(const ChannelPosition& call, int32_t other, const RankPosition& position) {
  if (call.peer >= 0) return call.peer == other;
  return FindChannel(position, call.group) != nullptr && !HasBegun(position, call);
}

// A call in which a rank waits, and the rank that it waits for and that has not begun it; -1: none.
struct Wait {
  const ChannelPosition* call = nullptr;  // null: it waits in none
  int32_t behind = -1;
};

// Returns the one of those behind that is least far in the calls of the group, and then in steps.
int32_t FindBehind(const Positions& positions, const ChannelPosition& call) {
  int32_t behind = -1;
  const auto place = [&](const RankPosition& position) {
    const ChannelPosition* channel = FindChannel(position, call.group);
    return std::pair(channel == nullptr ? 0 : channel->begun, position.step);
  };
  for (const auto& [other, position] : positions) {
    if (!WaitsFor(call, other, position) || HasBegun(position, call)) continue;
    if (behind < 0 || place(position) < place(positions.at(behind))) behind = other;
  }
  return behind;
}

// Returns the first wait for a rank that is behind, else the first wait.
Wait WaitOf(const Positions& positions, int32_t rank) {
  Wait first;
  for (const ChannelPosition& call : positions.at(rank).channels) {
    if (!call.waiting) continue;
    const int32_t behind = FindBehind(positions, call);
    if (behind >= 0) return {&call, behind};
    if (first.call == nullptr) first.call = &call;
  }
  return first;
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
      if (!call.waiting || !WaitsFor(call, rank, positions.at(rank))) continue;
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
  const bool waits = WaitOf(positions, rank).call != nullptr;
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

// A call without a peer that all members have begun: nothing that they tell shows who keeps it.
Hang NoneProceeds(const Positions& positions, const ChannelPosition& call) {
  int32_t first = -1;              // of those that are in the call
  std::vector<std::string> ended;  // the others
  for (const auto& [rank, position] : positions) {
    const ChannelPosition* channel = FindChannel(position, call.group);
    if (channel == nullptr) continue;
    if (channel->begun == call.begun && channel->waiting) {
      if (first < 0) first = rank;
      continue;
    }
    // A rank that goes on comes to its next wait long before the limit.
    if (WaitOf(positions, rank).call == nullptr) return StandsStill(positions, rank);
    ended.push_back(absl::StrCat(rank));
  }
  const RankPosition& position = positions.at(first);
  std::string message = absl::StrCat("waits", PlaceOf(position), ": all ranks of group ",
                                     call.group, " are in call ", call.begun);
  if (ended.empty()) {
    absl::StrAppend(&message, " and none proceeds");
  } else {
    absl::StrAppend(&message, " or have ended it, as rank ", absl::StrJoin(ended, ", "),
                    ", but it has not proceeded for ", Seconds(position.still));
  }
  return {.rank = first, .message = message + ": check the network between them"};
}

// Returns a rank that waits for one that is behind; else one with a wait; else the one that is
// least far.
int32_t WhereToBegin(const Positions& positions) {
  int32_t waits = -1, least = positions.begin()->first;
  for (const auto& [rank, position] : positions) {
    const Wait wait = WaitOf(positions, rank);
    if (wait.behind >= 0) return rank;
    if (wait.call != nullptr && waits < 0) waits = rank;
    if (position.step < positions.at(least).step) least = rank;
  }
  return waits >= 0 ? waits : least;
}

Hang FollowWaits(const Positions& positions) {
  std::set<int32_t> seen;
  int32_t rank = WhereToBegin(positions);
  while (true) {
    const auto [call, behind] = WaitOf(positions, rank);
    if (call == nullptr) return StandsStill(positions, rank);
    seen.insert(rank);
    if (behind >= 0) {
      if (seen.count(behind) != 0) return StandsStill(positions, behind);
      rank = behind;
      continue;
    }
    if (call->peer < 0) return NoneProceeds(positions, *call);
    // A peer without a position has ended; then its closed connections end the wait.
    if (positions.count(call->peer) == 0) return StandsStill(positions, rank);
    const ChannelPosition* next = FindChannel(positions.at(call->peer), call->group);
    const bool same_call = next->waiting && next->begun == call->begun && next->peer >= 0;
    if (!same_call || seen.count(next->peer) != 0) return NetworkCut(positions, rank, *call);
    rank = call->peer;
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

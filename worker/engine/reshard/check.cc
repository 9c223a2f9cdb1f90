// SPDX-License-Identifier: Apache-2.0

// Follows a plan step by step and keeps, for every rank, the boxes that it had and those that it
// got. A step may only send what its sender has by then, and only write what the receiver still
// needs.

#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/reshard/reshard.h"

namespace stretto {
namespace {

bool Contains(const Box& outer, const Box& inner) {
  Box common;
  return Intersect(outer, inner, &common) && VolumeOf(common) == VolumeOf(inner);
}

// Follows the plan step by step and keeps what every rank has.
class Follower {
 public:
  Follower(const Tiling& from, const Tiling& to) {
    for (const Tile& tile : from.tiles) {
      for (Rank rank : tile.ranks) had_.emplace(rank, tile.box);
    }
    for (const Tile& tile : to.tiles) {
      for (Rank rank : tile.ranks) wanted_.emplace(rank, tile.box);
    }
  }

  absl::Status Run(const Resharding& plan) {
    for (const LocalCopy& copy : plan.copies) {
      const auto had = had_.find(copy.rank);
      if (had == had_.end() || !Contains(had->second, copy.box)) {
        return Error("copy", copy.rank, "does not have", copy.box);
      }
      RETURN_IF_ERROR(Write("copy", copy.rank, copy.box));
    }
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      RETURN_IF_ERROR(Follow(absl::StrCat("step ", i), plan.steps[i]));
    }
    for (const auto& [rank, tile] : wanted_) {
      int64_t volume = 0;
      for (const Box& box : got_[rank]) volume += VolumeOf(box);
      if (volume == VolumeOf(tile)) continue;
      return absl::InvalidArgumentError(absl::StrCat("rank ", rank.value(), ": found ", volume,
                                                     " elements, expected ", VolumeOf(tile), " of ",
                                                     PrintBox(tile)));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Error(absl::string_view what, Rank rank, absl::string_view fault,
                            const Box& box) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": rank ", rank.value(), " ", fault, " ", PrintBox(box)));
  }

  absl::Status Follow(const std::string& what, const Step& step) {
    if (step.kind == Step::Kind::kChain) {
      if (!Has(step.ranks.at(0), step.box)) {
        return Error(what, step.ranks[0], "does not have", step.box);
      }
      for (size_t i = 1; i < step.ranks.size(); ++i) {
        RETURN_IF_ERROR(Write(what, step.ranks[i], step.box));
      }
      return absl::OkStatus();
    }
    const int parts = std::ssize(step.ranks);
    std::vector<Box> part;
    for (int i = 0; i < parts; ++i) part.push_back(PartOf(step.box, step.cut, i, parts));
    for (int i = 0; i < parts; ++i) {
      if (!Has(step.ranks[i], part[i])) {
        return Error(what, step.ranks[i], "does not have", part[i]);
      }
    }
    for (int i = 0; i < parts; ++i) {
      for (int j = 0; j < parts; ++j) {
        if (i != j) RETURN_IF_ERROR(Write(what, step.ranks[i], part[j]));
      }
    }
    return absl::OkStatus();
  }

  bool Has(Rank rank, const Box& box) const {
    if (const auto had = had_.find(rank); had != had_.end() && Contains(had->second, box)) {
      return true;
    }
    const auto got = got_.find(rank);
    if (got == got_.end()) return false;
    for (const Box& part : got->second) {
      if (Contains(part, box)) return true;
    }
    return false;
  }

  absl::Status Write(absl::string_view what, Rank rank, const Box& box) {
    const auto wanted = wanted_.find(rank);
    if (wanted == wanted_.end() || !Contains(wanted->second, box)) {
      return Error(what, rank, "does not need", box);
    }
    Box common;
    for (const Box& other : got_[rank]) {
      if (Intersect(other, box, &common)) return Error(what, rank, "has already got", common);
    }
    got_[rank].push_back(box);
    return absl::OkStatus();
  }

  std::map<Rank, Box> had_, wanted_;
  std::map<Rank, std::vector<Box>> got_;
};

}  // namespace

absl::Status CheckResharding(const Resharding& plan, const Tiling& from, const Tiling& to) {
  return Follower(from, to).Run(plan);
}

}  // namespace stretto

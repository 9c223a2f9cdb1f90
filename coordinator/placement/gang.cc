// SPDX-License-Identifier: Apache-2.0

// Blocks are dealt in the order of their sizes, the largest first, each stage to the worker that
// keeps least room or, if none has room for all of it, to the one with most room and then the rest
// of it. Stages that fit on a worker come before those that must be cut.
//
// Where sizes divide each other, the order in which blocks of a size are dealt does not change how
// many fit: a large block takes the room of a whole number of smaller ones, wherever it goes. So if
// some deal to the workers with most room exists, this one finds it.

#include "coordinator/placement/gang.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace stretto::coordinator {
namespace {

// Deals blocks to workers, whose numbers are indices of `room`.
class Dealer {
 public:
  Dealer(const Gang& gang, std::vector<int32_t> room)
      : gang_(gang), room_(std::move(room)), on_(gang.stages.size()), order_(gang.stages.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return gang.stages[a].size > gang.stages[b].size; });
  }

  // Returns whether all blocks found room. With `keep_stages`, those of stages that fit on a worker
  // are dealt first.
  bool All(bool keep_stages) {
    bool all = true;
    for (bool cut : {false, true}) {
      for (size_t stage : order_) {
        if (!on_[stage].empty()) continue;
        if (!cut && (!keep_stages || !FitsOneWorker(gang_.stages[stage]))) continue;
        all = Put(stage) && all;
      }
    }
    return all;
  }

  int32_t dealt() const {
    size_t blocks = 0;
    for (const std::vector<size_t>& stage : on_) blocks += stage.size();
    return static_cast<int32_t>(blocks);
  }

  // By rank.
  std::vector<size_t> Workers() const {
    std::vector<size_t> workers;
    for (size_t stage = 0; stage < on_.size(); ++stage) {
      for (size_t worker : on_[stage]) {
        workers.insert(workers.end(), static_cast<size_t>(gang_.stages[stage].size), worker);
      }
    }
    return workers;
  }

 private:
  bool FitsOneWorker(const StageBlocks& stage) const {
    return std::any_of(room_.begin(), room_.end(),
                       [&](int32_t free) { return free >= stage.ranks(); });
  }

  // Returns the worker with least room for `blocks` blocks of this size, or, if none has that much,
  // the one with most room; nothing if no worker has room for a block.
  std::optional<size_t> BestFor(int32_t blocks, int32_t size) const {
    std::optional<size_t> tight, most;
    for (size_t worker = 0; worker < room_.size(); ++worker) {
      const int32_t free = room_[worker];
      if (free < size) continue;
      if (free >= blocks * size && (!tight || free < room_[*tight])) tight = worker;
      if (!most || free > room_[*most]) most = worker;
    }
    return tight ? tight : most;
  }

  bool Put(size_t stage) {
    const StageBlocks& of = gang_.stages[stage];
    for (int32_t left = of.blocks; left > 0;) {
      const std::optional<size_t> to = BestFor(left, of.size);
      if (!to) return false;
      const int32_t taken = std::min(left, room_[*to] / of.size);
      on_[stage].insert(on_[stage].end(), static_cast<size_t>(taken), *to);
      room_[*to] -= taken * of.size;
      left -= taken;
    }
    return true;
  }

  const Gang& gang_;
  std::vector<int32_t> room_;
  std::vector<std::vector<size_t>> on_;  // by stage: the worker of each block
  std::vector<size_t> order_;            // of stages
};

// Returns the workers by rank, of those that have room; empty if the blocks do not fit.
std::vector<size_t> OnWorkers(const Gang& gang, const std::vector<int32_t>& room) {
  for (bool keep_stages : {true, false}) {
    Dealer dealer(gang, room);
    if (dealer.All(keep_stages)) return dealer.Workers();
  }
  return {};
}

// Returns the numbers of the workers with most room, the first of those that are alike first.
std::vector<size_t> ByRoom(const std::vector<int32_t>& room) {
  std::vector<size_t> order(room.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return room[a] > room[b]; });
  return order;
}

// As OnWorkers, on as few workers as possible.
std::vector<size_t> OnFewestWorkers(const Gang& gang, const std::vector<int32_t>& room) {
  const std::vector<size_t> order = ByRoom(room);
  const auto on_first = [&](size_t count) {
    std::vector<int32_t> chosen;
    for (size_t i = 0; i < count; ++i) chosen.push_back(room[order[i]]);
    return OnWorkers(gang, chosen);
  };
  size_t fits = room.size(), fits_not = 0;
  std::vector<size_t> found = on_first(fits);
  if (found.empty()) return found;
  while (fits - fits_not > 1) {
    const size_t middle = (fits + fits_not) / 2;
    std::vector<size_t> fewer = on_first(middle);
    if (fewer.empty()) {
      fits_not = middle;
    } else {
      fits = middle;
      found = std::move(fewer);
    }
  }
  for (size_t& worker : found) worker = order[worker];
  return found;
}

}  // namespace

std::vector<size_t> DealGang(const std::vector<int32_t>& room, const Gang& gang) {
  const int32_t ranks = gang.ranks();
  std::optional<size_t> best;
  for (size_t worker = 0; worker < room.size(); ++worker) {
    if (room[worker] >= ranks && (!best || room[worker] < room[*best])) best = worker;
  }
  if (best) return std::vector<size_t>(static_cast<size_t>(ranks), *best);
  std::vector<size_t> workers = OnFewestWorkers(gang, room);
  if (!workers.empty() || !gang.split_blocks) return workers;
  Gang single = gang;
  for (StageBlocks& stage : single.stages) stage = {.blocks = stage.ranks(), .size = 1};
  return OnFewestWorkers(single, room);
}

int32_t WholeBlocks(const std::vector<int32_t>& room, const Gang& gang) {
  Dealer dealer(gang, room);
  dealer.All(/*keep_stages=*/false);
  return dealer.dealt();
}

}  // namespace stretto::coordinator

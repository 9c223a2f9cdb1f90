// SPDX-License-Identifier: Apache-2.0

// A task is the intersection of a tile of each side: a box, the ranks that have it and those that
// need it. Where a box has copies on several nodes it is also tried in as many parts, so that each
// of those nodes sends one; the faster plan is taken. Tasks become moves between nodes (order.h),
// whose result names for each the sender's node; the steps are then written down in that order.

#include "worker/engine/reshard/reshard.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/comm/collective/collective.h"
#include "worker/engine/reshard/order.h"

namespace stretto {
namespace {

constexpr int64_t kLeastChunk = 64 << 10;

struct Task {
  Box box;
  std::vector<Rank> candidates;  // that have the box
  std::vector<Rank> receivers;   // that need it and do not have it
};

// Returns the first dimension of a box that n divides, or -1.
int DivisibleBy(const Box& box, int n) {
  for (size_t d = 0; d < box.extents.size(); ++d) {
    if (box.extents[d] % n == 0) return static_cast<int>(d);
  }
  return -1;
}

class Planner {
 public:
  Planner(const Topology& topology, const LinkCost& link, int64_t element_bytes,
          const ReshardRules& rules)
      : topology_(topology), link_(link), element_bytes_(element_bytes), rules_(rules) {
    for (int node : topology.node) nodes_ = std::max(nodes_, node + 1);
  }

  Resharding Run(const Tiling& from, const Tiling& to) {
    std::vector<Task> tasks;
    for (const Tile& target : to.tiles) {
      for (const Tile& source : from.tiles) AddTask(source, target, &tasks);
    }
    std::vector<Task> parts;
    for (const Task& task : tasks) Cut(task, &parts);
    Resharding whole = PlanOf(tasks);
    if (parts.size() == tasks.size()) return whole;
    Resharding cut = PlanOf(parts);
    return cut.makespan_seconds < whole.makespan_seconds * (1 - 1e-9) ? cut : whole;
  }

 private:
  int NodeOf(Rank rank) const { return topology_.node[rank]; }

  std::vector<int> NodesOf(const std::vector<Rank>& ranks) const {
    std::set<int> nodes;
    for (Rank rank : ranks) nodes.insert(NodeOf(rank));
    return {nodes.begin(), nodes.end()};
  }

  void AddTask(const Tile& source, const Tile& target, std::vector<Task>* tasks) {
    Task task;
    if (!Intersect(source.box, target.box, &task.box)) return;
    for (Rank rank : target.ranks) {
      if (std::binary_search(source.ranks.begin(), source.ranks.end(), rank)) {
        copies_.push_back({rank, task.box});
      } else {
        task.receivers.push_back(rank);
      }
    }
    if (task.receivers.empty()) return;
    task.candidates = source.ranks;
    if (!rules_.balances) task.candidates.resize(1);
    tasks->push_back(std::move(task));
  }

  // As many parts as there are nodes with a copy, where they are equal.
  void Cut(const Task& task, std::vector<Task>* parts) const {
    const int n = std::ssize(NodesOf(task.candidates));
    const int cut = DivisibleBy(task.box, n);
    for (int part = 0; part < (cut < 0 ? 1 : n); ++part) {
      parts->push_back(task);
      if (cut >= 0) parts->back().box = PartOf(task.box, cut, part, n);
    }
  }

  double BytesOf(const Box& box) const {
    return static_cast<double>(VolumeOf(box) * element_bytes_);
  }

  // The chunk of a chain over `hops` interfaces that ends first.
  int64_t ChunkOf(double bytes, int hops) const {
    if (hops <= 1) return kChainChunkBytes;
    const double ideal = std::sqrt(bytes * link_.latency_seconds * link_.bytes_per_second /
                                   static_cast<double>(hops - 1));
    return std::max<int64_t>(kLeastChunk, static_cast<int64_t>(std::min(ideal, bytes)));
  }

  struct Cost {
    ReshardMode mode;
    double seconds;
  };
  // A gather needs one copy on each node, but one for each receiver where they cannot share it.
  int CopiesOfGather(const Task& task) const {
    std::map<int, int> receivers;
    for (Rank rank : task.receivers) ++receivers[NodeOf(rank)];
    int copies = 0;
    for (const auto& [node, n] : receivers) copies += DivisibleBy(task.box, n) >= 0 ? 1 : n;
    return copies;
  }

  // `nodes`: of the receivers.
  Cost CostOf(const Task& task, int nodes) const {
    const double bytes = BytesOf(task.box), whole = bytes / link_.bytes_per_second;
    const double receivers = static_cast<double>(task.receivers.size());
    const double chunks =
        std::max(1.0, std::ceil(bytes / static_cast<double>(ChunkOf(bytes, nodes))));
    const Cost send{ReshardMode::kSend, receivers * (link_.latency_seconds + whole)};
    const Cost chain{ReshardMode::kChain,
                     (chunks + nodes - 1) * (link_.latency_seconds + whole / chunks)};
    const Cost gather{ReshardMode::kGather,
                      CopiesOfGather(task) * whole + receivers * link_.latency_seconds};
    switch (rules_.mode) {
      case ReshardMode::kSend:
        return send;
      case ReshardMode::kChain:
        return chain;
      case ReshardMode::kGather:
        return gather;
      case ReshardMode::kAuto:
        return std::min({send, chain, gather},
                        [](const Cost& a, const Cost& b) { return a.seconds < b.seconds; });
    }
    return chain;
  }

  Resharding PlanOf(const std::vector<Task>& tasks) const {
    std::vector<Move> moves;
    std::vector<ReshardMode> modes;
    for (const Task& task : tasks) {
      const std::vector<int> receivers = NodesOf(task.receivers);
      const Cost cost = CostOf(task, std::ssize(receivers));
      modes.push_back(cost.mode);
      moves.push_back(
          {.seconds = cost.seconds, .senders = NodesOf(task.candidates), .receivers = receivers});
    }
    const MoveOrder order = OrderMoves(moves, nodes_, rules_.orders);
    Resharding plan{.copies = copies_,
                    .steps = {},
                    .makespan_seconds = order.makespan,
                    .bound_seconds = order.bound};
    for (size_t i : order.order) AddSteps(tasks[i], order.sender[i], modes[i], i, &plan.steps);
    return plan;
  }

  // The first rank with the box on a node. Tasks take turns among those of a node.
  Rank SenderOn(const Task& task, int node, size_t turn) const {
    std::vector<Rank> here;
    for (Rank rank : task.candidates) {
      if (NodeOf(rank) == node) here.push_back(rank);
    }
    return here[turn % here.size()];
  }

  // By node, the sender's first; the others are rotated by the task's number, so that no node is
  // second in every chain.
  std::vector<std::vector<Rank>> ByNode(const Task& task, int sender, size_t turn) const {
    std::map<int, std::vector<Rank>> by_node;
    for (Rank rank : task.receivers) by_node[NodeOf(rank)].push_back(rank);
    std::vector<std::vector<Rank>> first, others;
    for (auto& [node, ranks] : by_node) {
      (node == sender ? first : others).push_back(std::move(ranks));
    }
    if (!others.empty()) {
      std::rotate(others.begin(), others.begin() + static_cast<int64_t>(turn % others.size()),
                  others.end());
    }
    first.insert(first.end(), others.begin(), others.end());
    return first;
  }

  void AddSteps(const Task& task, int node, ReshardMode mode, size_t turn,
                std::vector<Step>* steps) const {
    // The ranks of the node that have the box take turns, so that none sends all of its parts.
    size_t sent = turn;
    const auto chain = [&](const Box& box, std::vector<Rank> ranks, int hops) {
      ranks.insert(ranks.begin(), SenderOn(task, node, sent++));
      steps->push_back({.kind = Step::Kind::kChain,
                        .box = box,
                        .ranks = std::move(ranks),
                        .chunk_bytes = ChunkOf(BytesOf(box), hops)});
    };
    const std::vector<std::vector<Rank>> groups = ByNode(task, node, turn);
    if (mode == ReshardMode::kChain) {
      std::vector<Rank> all;
      for (const std::vector<Rank>& ranks : groups)
        all.insert(all.end(), ranks.begin(), ranks.end());
      return chain(task.box, std::move(all), std::ssize(groups));
    }
    for (const std::vector<Rank>& ranks : groups) {
      const int n = std::ssize(ranks), cut = DivisibleBy(task.box, n);
      const bool gathers = mode == ReshardMode::kGather && n > 1 && cut >= 0;
      for (int i = 0; i < n; ++i) {
        chain(gathers ? PartOf(task.box, cut, i, n) : task.box, {ranks[i]}, 1);
      }
      if (gathers) {
        steps->push_back(
            {.kind = Step::Kind::kGather, .box = task.box, .ranks = ranks, .cut = cut});
      }
    }
  }

  const Topology& topology_;
  const LinkCost& link_;
  const int64_t element_bytes_;
  const ReshardRules rules_;
  int nodes_ = 0;
  std::vector<LocalCopy> copies_;
};

}  // namespace

absl::StatusOr<Resharding> PlanResharding(const Tiling& from, const Tiling& to,
                                          const Topology& topology, const LinkCost& link,
                                          int64_t element_bytes, const ReshardRules& rules) {
  if (from.shape != to.shape) {
    return absl::InvalidArgumentError(
        absl::StrCat("reshard: found shapes [", absl::StrJoin(from.shape, ","), "] and [",
                     absl::StrJoin(to.shape, ","), "], expected one"));
  }
  for (const Tiling* tiling : {&from, &to}) {
    RETURN_IF_ERROR(CheckTiling(*tiling));
    for (const Tile& tile : tiling->tiles) {
      for (Rank rank : tile.ranks) {
        if (topology.node.Has(rank) && topology.node[rank] >= 0) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("reshard: found no node of rank ", rank.value(), ", expected one"));
      }
    }
  }
  return Planner(topology, link, element_bytes, rules).Run(from, to);
}

}  // namespace stretto

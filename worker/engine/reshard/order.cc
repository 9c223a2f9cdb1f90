// SPDX-License-Identifier: Apache-2.0

// Senders first: the longest move goes to the node that has least to send, then moves change their
// sender, alone or in pairs, while the sum of squared loads falls. The order is a list schedule:
// the move that can start earliest comes next, and among those the one on the node with the most
// work left. For a few moves, a depth-first search over both choices starts from that result and
// cuts branches by what each node must still do.

#include "worker/engine/reshard/order.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

namespace stretto {
namespace {

constexpr size_t kSearched = 8;          // moves
constexpr int kSearchedSteps = 200'000;  // about 50 ms
constexpr double kEqual = 1 - 1e-9;      // of times that differ by rounding only

class Orderer {
 public:
  Orderer(absl::Span<const Move> moves, int nodes, bool reorders)
      : moves_(moves), nodes_(nodes), reorders_(reorders) {}

  MoveOrder Run() {
    best_.bound = Bound();
    best_.sender = ChooseSenders();
    best_.order = reorders_ ? ListOrder(best_.sender) : NaturalOrder();
    best_.makespan = Makespan(best_.order, best_.sender);
    if (reorders_ && moves_.size() <= kSearched) {
      std::vector<double> must(nodes_, 0);
      for (size_t i = 0; i < moves_.size(); ++i) Forced(i, 1, &must);
      std::vector<bool> done(moves_.size(), false);
      std::vector<size_t> order;
      std::vector<int> sender = best_.sender;
      Search(std::vector<double>(nodes_, 0), &must, &done, &order, &sender);
    }
    return std::move(best_);
  }

 private:
  // The nodes that a move occupies, given its sender's.
  std::vector<int> Occupied(size_t i, int sender) const {
    std::vector<int> nodes = moves_[i].receivers;
    if (nodes.size() == 1 && nodes[0] == sender) return {};
    if (!std::binary_search(nodes.begin(), nodes.end(), sender)) nodes.push_back(sender);
    return nodes;
  }

  // Adds `times` the seconds of a move to the nodes that it occupies whatever its sender.
  void Forced(size_t i, int times, std::vector<double>* must) const {
    const Move& move = moves_[i];
    if (move.senders.size() == 1) {
      for (int node : Occupied(i, move.senders[0])) (*must)[node] += times * move.seconds;
      return;
    }
    const bool may_be_free =
        move.receivers.size() == 1 &&
        std::binary_search(move.senders.begin(), move.senders.end(), move.receivers[0]);
    for (int node : move.receivers) (*must)[node] += may_be_free ? 0 : times * move.seconds;
  }

  double Bound() const {
    std::vector<double> must(nodes_, 0);
    std::vector<bool> sends(nodes_, false);
    double total = 0;
    for (size_t i = 0; i < moves_.size(); ++i) {
      Forced(i, 1, &must);
      const Move& move = moves_[i];
      const bool apart = std::none_of(move.senders.begin(), move.senders.end(), [&](int node) {
        return std::binary_search(move.receivers.begin(), move.receivers.end(), node);
      });
      if (apart) total += move.seconds;
      for (int node : move.senders) sends[node] = true;
    }
    const auto senders = std::count(sends.begin(), sends.end(), true);
    const double shared = senders == 0 ? 0 : total / static_cast<double>(senders);
    return must.empty() ? 0 : std::max(shared, *std::max_element(must.begin(), must.end()));
  }

  std::vector<int> ChooseSenders() const {
    std::vector<size_t> longest = NaturalOrder();
    std::stable_sort(longest.begin(), longest.end(),
                     [&](size_t a, size_t b) { return moves_[a].seconds > moves_[b].seconds; });
    std::vector<int> sender(moves_.size());
    std::vector<double> load(nodes_, 0);
    for (size_t i : longest) {
      const std::vector<int>& from = moves_[i].senders;
      sender[i] = *std::min_element(from.begin(), from.end(),
                                    [&](int a, int b) { return load[a] < load[b]; });
      load[sender[i]] += moves_[i].seconds;
    }
    while (Improve(&sender, &load)) {
    }
    return sender;
  }

  // Moves the first move, or exchanges the first pair, that lowers the sum of squared loads.
  bool Improve(std::vector<int>* sender, std::vector<double>* load) const {
    const auto shift = [&](size_t i, int to) {
      (*load)[(*sender)[i]] -= moves_[i].seconds;
      (*load)[to] += moves_[i].seconds;
      (*sender)[i] = to;
    };
    const auto may = [&](size_t i, int node) {
      return std::binary_search(moves_[i].senders.begin(), moves_[i].senders.end(), node);
    };
    for (size_t i = 0; i < moves_.size(); ++i) {
      const double mine = moves_[i].seconds, here = (*load)[(*sender)[i]];
      for (int to : moves_[i].senders) {
        if (to == (*sender)[i] || (*load)[to] + mine >= here * kEqual) continue;
        shift(i, to);
        return true;
      }
      for (size_t j = 0; j < i; ++j) {
        const int a = (*sender)[i], b = (*sender)[j];
        const double more = mine - moves_[j].seconds;
        if (a == b || more <= 0 || (*load)[b] + more >= (*load)[a] * kEqual) continue;
        if (!may(i, b) || !may(j, a)) continue;
        shift(i, b);
        shift(j, a);
        return true;
      }
    }
    return false;
  }

  // Starts a move when all its nodes are free; returns when.
  double Start(size_t i, int sender, const std::vector<double>& free) const {
    double start = 0;
    for (int node : Occupied(i, sender)) start = std::max(start, free[node]);
    return start;
  }
  void Occupy(size_t i, int sender, std::vector<double>* free) const {
    const double end = Start(i, sender, *free) + moves_[i].seconds;
    for (int node : Occupied(i, sender)) (*free)[node] = end;
  }

  std::vector<size_t> NaturalOrder() const {
    std::vector<size_t> order(moves_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }

  std::vector<size_t> ListOrder(const std::vector<int>& sender) const {
    std::vector<double> free(nodes_, 0), left(nodes_, 0);
    for (size_t i = 0; i < moves_.size(); ++i) {
      for (int node : Occupied(i, sender[i])) left[node] += moves_[i].seconds;
    }
    std::vector<size_t> rest = NaturalOrder(), order;
    while (!rest.empty()) {
      const auto key = [&](size_t i) {
        double most = 0;
        for (int node : Occupied(i, sender[i])) most = std::max(most, left[node]);
        return std::tuple(Start(i, sender[i], free), -most, -moves_[i].seconds, i);
      };
      const auto next = std::min_element(rest.begin(), rest.end(),
                                         [&](size_t a, size_t b) { return key(a) < key(b); });
      order.push_back(*next);
      for (int node : Occupied(*next, sender[*next])) left[node] -= moves_[*next].seconds;
      Occupy(*next, sender[*next], &free);
      rest.erase(next);
    }
    return order;
  }

  double Makespan(const std::vector<size_t>& order, const std::vector<int>& sender) const {
    std::vector<double> free(nodes_, 0);
    for (size_t i : order) Occupy(i, sender[i], &free);
    return free.empty() ? 0 : *std::max_element(free.begin(), free.end());
  }

  void Search(const std::vector<double>& free, std::vector<double>* must, std::vector<bool>* done,
              std::vector<size_t>* order, std::vector<int>* sender) {
    if (++steps_ > kSearchedSteps || best_.makespan * kEqual <= best_.bound) return;
    double least = 0;
    for (int node = 0; node < nodes_; ++node) {
      least = std::max(least, free[node] + (*must)[node]);
    }
    if (least >= best_.makespan * kEqual) return;
    if (order->size() == moves_.size()) {
      best_.order = *order;
      best_.sender = *sender;
      best_.makespan = least;
      return;
    }
    for (size_t i = 0; i < moves_.size(); ++i) {
      if ((*done)[i]) continue;
      (*done)[i] = true;
      order->push_back(i);
      Forced(i, -1, must);
      for (int from : moves_[i].senders) {
        (*sender)[i] = from;
        std::vector<double> next = free;
        Occupy(i, from, &next);
        Search(next, must, done, order, sender);
      }
      Forced(i, 1, must);
      order->pop_back();
      (*done)[i] = false;
    }
  }

  const absl::Span<const Move> moves_;
  const int nodes_;
  const bool reorders_;
  MoveOrder best_;
  int steps_ = 0;
};

}  // namespace

MoveOrder OrderMoves(absl::Span<const Move> moves, int nodes, bool reorders) {
  return Orderer(moves, nodes, reorders).Run();
}

}  // namespace stretto

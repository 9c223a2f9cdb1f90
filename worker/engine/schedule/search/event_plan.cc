// SPDX-License-Identifier: Apache-2.0

// Continues all fronts by one item at a time, so that those that have played the same items meet in
// the same round. Of these, a front is compared only with those of better bounds, because one that
// is no later has no larger bound. When a round has more fronts than may be continued, those with
// the smallest bounds are kept and, where these are equal, those whose queues are equally far.

#include "worker/engine/schedule/search/event_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace stretto {
namespace {

constexpr double kRounding = 1e-9;  // of sums, relative

struct Label {
  Front front;
  CellPlayer::Bound bound;
  size_t step = 0;  // the last, as an index into the steps of the search
};

// How a front was reached.
struct Played {
  size_t before = 0;  // index of the step before
  Queue queue = Queue::kForward;
};

bool IsBetter(const Label& a, const Label& b) {
  return std::tie(a.bound.seconds, a.bound.unevenness) <
         std::tie(b.bound.seconds, b.bound.unevenness);
}

// Drops labels that another of the same items is no later than.
void DropLater(const CellPlayer& player, std::vector<Label>* labels) {
  std::stable_sort(labels->begin(), labels->end(), [](const Label& a, const Label& b) {
    return a.front.at != b.front.at ? a.front.at < b.front.at : IsBetter(a, b);
  });
  std::vector<Label> kept;
  size_t group = 0;  // the first kept of the same items
  for (Label& label : *labels) {
    if (kept.empty() || kept.back().front.at != label.front.at) group = kept.size();
    const auto no_later = [&](const Label& other) {
      return player.IsNoLater(other.front, label.front);
    };
    if (std::none_of(kept.begin() + static_cast<std::ptrdiff_t>(group), kept.end(), no_later))
      kept.push_back(std::move(label));
  }
  *labels = std::move(kept);
}

}  // namespace

absl::StatusOr<CellPlan> EventPlan(const CellItems& cell, size_t most_fronts) {
  const CellPlayer player(cell);
  const size_t rounds = cell.items();
  const size_t width = std::max<size_t>(1, most_fronts / std::max<size_t>(1, rounds));
  std::vector<Played> steps = {{}};
  std::vector<Label> labels = {{.front = player.Start(), .bound = {}, .step = 0}}, next;
  bool exact = true;
  for (size_t round = 0; round < rounds; ++round) {
    next.clear();
    for (const Label& label : labels) {
      for (Queue queue : {Queue::kForward, Queue::kBackward, Queue::kWeights}) {
        if (!player.MayPlay(queue, label.front)) continue;
        Label longer = {.front = label.front, .bound = {}, .step = steps.size()};
        player.Play(queue, &longer.front);
        longer.bound = player.BoundOf(longer.front);
        steps.push_back({.before = label.step, .queue = queue});
        next.push_back(std::move(longer));
      }
    }
    DropLater(player, &next);
    if (next.empty()) return absl::InvalidArgumentError("the queues of a cell wait for each other");
    if (next.size() > width) {
      std::stable_sort(next.begin(), next.end(), IsBetter);
      next.resize(width);
      exact = false;
    }
    std::swap(labels, next);
  }
  const Label& best = *std::min_element(labels.begin(), labels.end(), IsBetter);
  CellPlan plan = {.order = Merge(rounds), .seconds = EndOf(best.front), .exact = exact};
  for (size_t round = rounds, step = best.step; round-- > 0; step = steps[step].before)
    plan.order[round] = steps[step].queue;
  plan.exact = exact || plan.seconds <= LowerBound(cell) * (1 + kRounding);
  return plan;
}

}  // namespace stretto

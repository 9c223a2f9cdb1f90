// SPDX-License-Identifier: Apache-2.0

// Continues all fronts by one item at a time, so that those that have played the same items meet in
// the same round. Of these, a front is compared only with those of better bounds, because one that
// is no later has no larger bound. When a round has more fronts than may be continued, those with
// the smallest bounds are kept and, where these are equal, those whose queues are equally far. The
// front of the given order is kept beside them.

#include "worker/engine/schedule/search/event_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace stretto {
namespace {

constexpr double kRounding = 1e-9;  // of sums, relative
constexpr double kWorth = 1e-3;     // what another order than the given one must save, relative

struct Label {
  Front front;
  CellPlayer::Bound bound;
  size_t step = 0;  // the last, as an index into the steps of the search
  bool given = false;
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

absl::StatusOr<CellPlan> EventPlan(const CellItems& cell, size_t most_fronts, const Merge& given) {
  const CellPlayer player(cell);
  const double given_seconds = player.SecondsOf(given);
  const bool has_given = given_seconds >= 0;
  const size_t rounds = cell.items();
  const size_t width = std::max<size_t>(1, most_fronts / std::max<size_t>(1, rounds));
  std::vector<Played> steps = {{}};
  std::vector<Label> labels = {{.front = player.Start(), .bound = {}}}, next;
  Label with_given = labels.front();
  const auto longer = [&](const Label& label, Queue queue) {
    Label by_one = {.front = label.front, .bound = {}, .step = steps.size()};
    player.Play(queue, &by_one.front);
    by_one.bound = player.BoundOf(by_one.front);
    steps.push_back({.before = label.step, .queue = queue});
    return by_one;
  };
  bool exact = true;
  for (size_t round = 0; round < rounds; ++round) {
    next.clear();
    for (const Label& label : labels) {
      for (Queue queue : {Queue::kForward, Queue::kBackward, Queue::kWeights}) {
        if (player.MayPlay(queue, label.front)) next.push_back(longer(label, queue));
      }
    }
    if (has_given) {
      with_given = longer(with_given, given[round]);
      with_given.given = true;
      next.push_back(with_given);
    }
    DropLater(player, &next);
    if (next.empty()) return absl::InvalidArgumentError("the queues of a cell wait for each other");
    if (next.size() > width) {
      std::stable_sort(next.begin(), next.end(), IsBetter);
      // Fronts that are no later than that of the given order may be dropped, it may not.
      const auto is_given = [](const Label& label) { return label.given; };
      const auto kept =
          std::find_if(next.begin() + static_cast<std::ptrdiff_t>(width), next.end(), is_given);
      if (kept != next.end()) std::swap(next[width - 1], *kept);
      next.resize(width);
      exact = false;
    }
    std::swap(labels, next);
  }
  const Label& best = *std::min_element(labels.begin(), labels.end(), IsBetter);
  CellPlan plan = {.order = Merge(rounds), .seconds = EndOf(best.front), .exact = exact};
  for (size_t round = rounds, step = best.step; round-- > 0; step = steps[step].before)
    plan.order[round] = steps[step].queue;
  if (has_given && given_seconds <= plan.seconds * (1 + kWorth)) {
    exact = exact && given_seconds <= plan.seconds * (1 + kRounding);
    plan = {.order = given, .seconds = given_seconds};
  }
  plan.exact = exact || plan.seconds <= LowerBound(cell) * (1 + kRounding);
  return plan;
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// Continues all fronts by one item at a time, so that those that have played the same items meet in
// the same round. Of these, a front is compared only with those of better bounds, because one that
// is no later has no larger bound. When a round has more fronts than may be continued, those with
// the smallest bounds are kept and, where these are equal, those whose queues are equally far.
//
// A search of few fronts finds a good order soon, and a search of more then drops every front that
// cannot beat it. So the number of fronts grows until the search is exact or its order is as good
// as the lower bound.

#include "worker/engine/schedule/search/event_plan.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr double kRounding = 1e-9;  // of sums, relative
constexpr double kEndless = std::numeric_limits<double>::infinity();

struct Label {
  Front front;
  CellPlayer::Bound bound;
  size_t step = 0;                // the last but one, as an index into the steps of the search
  Queue queue = Queue::kForward;  // the last
};

// How a front was reached.
struct Move {
  size_t before = 0;  // index of the step before
  Queue queue = Queue::kForward;
};

// What labels are sorted by: those of the same items together, the best first. Of equal ones the
// earlier comes first, so that every search has the same order.
struct Place {
  PerQueue<int> items = {};
  double seconds = 0, unevenness = 0;
  size_t label = 0;  // its index
  auto operator<=>(const Place&) const = default;
};

class EventSearch {
 public:
  explicit EventSearch(const CellItems& cell) : player_(cell), rounds_(cell.items()) {}

  const CellPlayer& player() const { return player_; }

  // Returns the shortest order found by continuing from at most `width` fronts in a round. It takes
  // less than `limit`, or is empty and takes forever if no such order was found. It is exact if no
  // front was dropped that might have ended before.
  absl::StatusOr<CellPlan> ShorterThan(double limit, size_t width) {
    steps_ = {{}};
    labels_.assign(1, {.front = player_.Start(), .bound = {}});
    CellPlan plan = {.order = {}, .seconds = kEndless};
    for (size_t round = 0; round < rounds_; ++round) {
      if (!Continue(limit * (1 - kRounding)))
        return absl::InvalidArgumentError("the queues of a cell wait for each other");
      DropLater();
      plan.exact = plan.exact && order_.size() <= width;
      Keep(width);
      if (labels_.empty()) return plan;
    }
    const Label& best = *std::min_element(
        labels_.begin(), labels_.end(),
        [](const Label& a, const Label& b) { return EndOf(a.front) < EndOf(b.front); });
    if (EndOf(best.front) >= limit) return plan;
    plan.seconds = EndOf(best.front);
    plan.order.resize(rounds_);
    for (size_t round = rounds_, step = best.step; round-- > 0; step = steps_[step].before)
      plan.order[round] = steps_[step].queue;
    return plan;
  }

 private:
  // Makes the labels of the next round, without those that cannot end before `limit`. False if no
  // label can be continued.
  bool Continue(double limit) {
    bool can = false;
    next_.clear();
    for (const Label& label : labels_) {
      for (Queue queue : kEveryQueue) {
        if (!player_.MayPlay(queue, label.front)) continue;
        can = true;
        Label& longer = next_.emplace_back(label);
        longer.queue = queue;
        player_.Play(queue, &longer.front);
        longer.bound = player_.BoundOf(longer.front);
        if (longer.bound.seconds >= limit) next_.pop_back();
      }
    }
    return can;
  }

  // Lists labels that no other of the same items is no later than.
  void DropLater() {
    order_.clear();
    for (size_t i = 0; i < next_.size(); ++i) {
      const Label& label = next_[i];
      order_.push_back({.items = label.front.at,
                        .seconds = label.bound.seconds,
                        .unevenness = label.bound.unevenness,
                        .label = i});
    }
    std::sort(order_.begin(), order_.end());
    size_t kept = 0, group = 0;  // the first kept of the same items
    for (const Place& place : order_) {
      if (kept == 0 || order_[kept - 1].items != place.items) group = kept;
      const auto no_later = [&](const Place& other) {
        return player_.IsNoLater(next_[other.label].front, next_[place.label].front);
      };
      const auto at = [&](size_t i) { return order_.begin() + static_cast<std::ptrdiff_t>(i); };
      if (std::none_of(at(group), at(kept), no_later)) order_[kept++] = place;
    }
    order_.resize(kept);
  }

  // Goes on with the best of the labels that are listed.
  void Keep(size_t width) {
    if (order_.size() > width) {
      const auto end = order_.begin() + static_cast<std::ptrdiff_t>(width);
      std::nth_element(order_.begin(), end, order_.end(), [](const Place& a, const Place& b) {
        return std::tie(a.seconds, a.unevenness, a.label) <
               std::tie(b.seconds, b.unevenness, b.label);
      });
      order_.erase(end, order_.end());
    }
    labels_.clear();
    for (const Place& place : order_) {
      Label& label = labels_.emplace_back(std::move(next_[place.label]));
      steps_.push_back({.before = label.step, .queue = label.queue});
      label.step = steps_.size() - 1;
    }
  }

  const CellPlayer player_;
  const size_t rounds_;
  std::vector<Move> steps_;
  std::vector<Label> labels_, next_;
  std::vector<Place> order_;  // of next_
};

}  // namespace

absl::StatusOr<CellPlan> EventPlan(const CellItems& cell, size_t most_fronts, const Merge& given) {
  EventSearch search(cell);
  const double given_seconds = search.player().SecondsOf(given);
  const bool has_given = given_seconds >= 0;
  const double bound = LowerBound(cell);
  CellPlan best = {.order = given, .seconds = has_given ? given_seconds : kEndless, .exact = false};
  for (size_t fronts : {most_fronts / 64, most_fronts / 8, most_fronts}) {
    const size_t width = std::max<size_t>(1, fronts / std::max<size_t>(1, cell.items()));
    ASSIGN_OR_RETURN(CellPlan plan, search.ShorterThan(best.seconds, width));
    best.exact = plan.exact;
    if (plan.seconds < best.seconds) best = std::move(plan);
    if (best.exact || best.seconds <= bound * (1 + kWorth)) break;
  }
  if (has_given && given_seconds <= best.seconds * (1 + kWorth)) {
    const bool exact = best.exact && given_seconds <= best.seconds * (1 + kRounding);
    best = {.order = given, .seconds = given_seconds, .exact = exact};
  }
  best.exact = best.exact || best.seconds <= bound * (1 + kRounding);
  return best;
}

}  // namespace stretto

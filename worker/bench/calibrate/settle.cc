// SPDX-License-Identifier: Apache-2.0

// Keeps the values of all repeats sorted and judges them anew after each: which agree, and whether
// they are enough.

#include "worker/bench/calibrate/settle.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/disturbance.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/cost/profile.h"

namespace stretto::bench {
namespace {

// Returns the quiet times, or as many of the shortest as must be quiet.
absl::Span<const double> ShortestOf(absl::Span<const double> sorted) {
  const size_t count = std::max<size_t>(kSettledRounds, (sorted.size() + 2) / 3);
  return sorted.subspan(0, std::max(count, QuietOf(sorted).size()));
}

absl::Span<const double> ClosestOf(absl::Span<const double> values) {
  const size_t count = std::max<size_t>(kSettledRounds, (2 * values.size() + 2) / 3);
  if (values.size() <= count) return values;
  size_t best = 0;
  for (size_t i = 1; i + count <= values.size(); ++i) {
    if (SpreadOf(values.subspan(i, count)) < SpreadOf(values.subspan(best, count))) best = i;
  }
  return values.subspan(best, count);
}

// Returns the 95 % confidence interval of the median, as the values in it: by the normal
// approximation of the binomial distribution, those within 0.98 sqrt(n) places of the middle one.
absl::Span<const double> IntervalOfMedian(absl::Span<const double> sorted) {
  const auto count = static_cast<double>(sorted.size());
  const auto left_out =
      static_cast<size_t>(std::max(0.0, std::floor(count / 2 - 0.98 * std::sqrt(count))));
  return sorted.subspan(left_out, sorted.size() - 2 * left_out);
}

struct Agreement {
  absl::Span<const double> values;  // whose median is the result
  bool settled = false;
  double interval = 0;  // of a ratio's median
};

Agreement AgreementOf(Values kind, absl::Span<const double> sorted, double most_interval) {
  if (kind == Values::kAny) return {.values = sorted, .settled = true};
  const absl::Span<const double> agreed =
      kind == Values::kTimes ? ShortestOf(sorted) : ClosestOf(sorted);
  const bool settled = SpreadOf(agreed) <= kMostSpread;
  if (kind == Values::kTimes) return {.values = agreed, .settled = settled};
  const absl::Span<const double> interval = IntervalOfMedian(sorted);
  const double spread = SpreadOf(interval);
  if (settled || spread > most_interval) return {agreed, settled, spread};
  return {interval, true, spread};
}

// The repeats so far.
class Repeated {
 public:
  Repeated(Values kind, double most_interval) : kind_(kind), most_interval_(most_interval) {}

  void Add(absl::Span<const double> values);
  bool done() const { return found_.settled || count_ == kMostRounds; }
  const Repeats& found() const { return found_; }

 private:
  Values kind_;
  double most_interval_;
  int count_ = 0;
  std::vector<std::vector<double>> sorted_;  // by value
  Repeats found_;
};

void Repeated::Add(absl::Span<const double> values) {
  sorted_.resize(values.size());
  found_ = Repeats();
  found_.settled = ++count_ >= kSettledRounds;
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<double>& sorted = sorted_[i];
    sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), values[i]), values[i]);
    const Agreement agreed = AgreementOf(kind_, sorted, most_interval_);
    found_.settled = found_.settled && agreed.settled;
    found_.spread = std::max(found_.spread, SpreadOf(agreed.values));
    found_.interval = std::max(found_.interval, agreed.interval);
    found_.medians.push_back(MedianOf({agreed.values.begin(), agreed.values.end()}));
  }
}

}  // namespace

absl::StatusOr<Repeats> Repeat(Values kind,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure,
                               double most_interval) {
  Repeated repeats(kind, most_interval);
  while (!repeats.done()) {
    ASSIGN_OR_RETURN(const std::vector<double> values, measure());
    repeats.Add(values);
  }
  return repeats.found();
}

absl::StatusOr<Repeats> Settle(const std::string& what,
                               absl::FunctionRef<absl::StatusOr<std::vector<double>>()> measure,
                               double most_interval) {
  ASSIGN_OR_RETURN(Repeats found, Repeat(Values::kRatios, measure, most_interval));
  if (found.settled) return found;
  return UnsettledError(absl::StrFormat(
      "%s: found repeats of which the closest two thirds spread by %.1f %% and the interval of the "
      "median by %.1f %%, expected at most %.0f %% or %.1f %% within %d rounds",
      what, 100 * found.spread, 100 * found.interval, 100 * kMostSpread, 100 * most_interval,
      kMostRounds));
}

absl::Status UnsettledError(const std::string& message) {
  return absl::FailedPreconditionError(absl::StrCat(message, "; calibrate on an idle machine"));
}

// No communicator and no executor has errors of this code.
bool IsUnsettled(const absl::Status& status) { return absl::IsFailedPrecondition(status); }

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0

// Each rank has a ring of its newest steps. A stage is judged whenever its first rank has finished
// kEvery more steps and every rank has a full window. Medians of windows need no common step, so
// reports may arrive in any order among ranks.
//
// The spread of a window is its median absolute deviation, which outliers such as checkpoints and a
// page fault do not move. For steps that vary independently, the median of n of them has a standard
// error of 1.858 deviations over the square root of n. Noise is the error of a difference of two
// such medians, with the larger error of the rank's own and of the usual one of its stage.

#include "coordinator/core/straggler.h"

#include <algorithm>
#include <cmath>

namespace stretto::coordinator {
namespace {

// Reorders the values.
double Median(std::vector<double>* values) {
  const auto middle = values->begin() + static_cast<std::ptrdiff_t>((values->size() - 1) / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

}  // namespace

StragglerWatch::StragglerWatch(const std::vector<int32_t>& stages, StragglerLimits limits)
    : limits_(limits) {
  int32_t first = 0;
  for (const int32_t size : stages) {
    stages_.push_back({.first = first, .size = size});
    stage_of_.resize(Index(first + size), stages_.size() - 1);
    first += size;
  }
  ranks_.resize(stage_of_.size());
}

bool StragglerWatch::Add(int32_t rank, StepTimes times) {
  if (StageSizeOf(rank) <= 1) return false;
  const Stage& stage = stages_[stage_of_[Index(rank)]];
  Rank& of = ranks_[Index(rank)];
  if (of.window.size() < kWindow) {
    of.window.push_back(times);
  } else {
    of.window[static_cast<size_t>(of.steps % kWindow)] = times;
  }
  ++of.steps;
  return rank == stage.first && of.steps % kEvery == 0 && Judge(stage);
}

int32_t StragglerWatch::StageSizeOf(int32_t rank) const {
  if (rank < 0 || Index(rank) >= ranks_.size()) return 0;
  return stages_[stage_of_[Index(rank)]].size;
}

double StragglerWatch::LostSeconds(int32_t rank) const {
  return StageSizeOf(rank) <= 1 ? -1 : ranks_[Index(rank)].lost;
}

StragglerWatch::Estimate StragglerWatch::EstimateOf(const Rank& rank) {
  std::vector<double> own, wall;
  for (const StepTimes& times : rank.window) {
    own.push_back(std::max(times.own, times.preempted));
    wall.push_back(times.wall);
  }
  Estimate estimate{.own = Median(&own), .wall = Median(&wall)};
  for (double& value : own) value = std::abs(value - estimate.own);
  estimate.error = 1.858 * Median(&own) / std::sqrt(static_cast<double>(kWindow));
  return estimate;
}

bool StragglerWatch::Judge(const Stage& stage) {
  std::vector<Estimate> estimates;
  std::vector<double> sorted, errors;
  for (int32_t rank = stage.first; rank < stage.first + stage.size; ++rank) {
    if (ranks_[Index(rank)].window.size() < kWindow) return false;
    const Estimate& estimate = estimates.emplace_back(EstimateOf(ranks_[Index(rank)]));
    sorted.push_back(estimate.own);
    errors.push_back(estimate.error);
  }
  std::sort(sorted.begin(), sorted.end());
  std::sort(errors.begin(), errors.end());
  const double usual_error = errors[errors.size() / 2];
  const size_t low = (sorted.size() - 2) / 2, high = (sorted.size() - 1) / 2;
  bool changed = false;
  for (int32_t i = 0; i < stage.size; ++i) {
    const Estimate& of = estimates[Index(i)];
    const auto own = std::lower_bound(sorted.begin(), sorted.end(), of.own) - sorted.begin();
    // Of the others, without this rank.
    const auto at = [&](size_t k) { return sorted[k + (k >= static_cast<size_t>(own) ? 1 : 0)]; };
    const double others = (at(low) + at(high)) / 2;
    const double excess = of.own - others;
    const double noise = limits_.sigmas * std::sqrt(2) * std::max(of.error, usual_error);
    const int32_t rank = stage.first + i;
    ranks_[Index(rank)].lost += kEvery * std::max(0.0, excess);
    const bool is_straggler = stragglers_.contains(rank);
    if (!is_straggler && excess > std::max(limits_.begins * of.wall, noise)) {
      stragglers_[rank] = excess / of.wall;
      changed = true;
    } else if (is_straggler && excess < limits_.ends * of.wall) {
      stragglers_.erase(rank);
      changed = true;
    }
  }
  return changed;
}

}  // namespace stretto::coordinator

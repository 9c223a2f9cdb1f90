// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the ranks of a job that make others wait. Pure.
//
// Ranks of a stage do the same work in every step and meet in it, so what one of them needs longer,
// the others wait. Whether a rank waited or worked is known from its own ledger, so no clocks are
// compared. Ranks of different stages may have different work by design, and are never compared.

#include <cstdint>
#include <map>
#include <vector>

namespace stretto::coordinator {

struct StragglerLimits {
  double begins = 0.10;  // share of a step that the others wait
  double ends = 0.05;
  // A difference is believed if it is this many times what the spread of the steps explains.
  double sigmas = 5;
};

// What a rank needed for a step.
struct StepTimes {
  double own = 0;   // seconds of its own work: it computed, or read data
  double wall = 0;  // seconds of the whole step
  // Seconds for which one of its threads was ready to run and had no CPU; 0 if that is not known,
  // or does not matter.
  double preempted = 0;
};

// Watches an attempt of a job. A step costs a rank at least its own work, and at least the time for
// which it lacked a CPU: other programs delay its communication rather than its computation, which
// then looks like waiting. A rank's time is the median of its newest kWindow steps. Its excess
// is that time less the median of the other ranks of its stage, and its score the excess as a share
// of the step. A rank whose score exceeds `begins`, and `sigmas` times the noise, is a
// straggler until it is below `ends`. A rank that shares its stage with nobody has no score.
//
// Memory: 512 bytes a rank. Work of a report: constant, spread over kEvery steps.
class StragglerWatch {
 public:
  static constexpr int kWindow = 32;
  static constexpr int kEvery = 8;

  // `stages`: the ranks of each stage, which are consecutive.
  explicit StragglerWatch(const std::vector<int32_t>& stages, StragglerLimits limits = {});

  // Adds a step of a rank; steps of a rank come in order. Returns whether stragglers() has changed.
  bool Add(int32_t rank, StepTimes times);

  // The score of each straggler when it became one.
  const std::map<int32_t, double>& stragglers() const { return stragglers_; }
  // Ranks of the stage of this rank; 0 if no stage has it.
  int32_t StageSizeOf(int32_t rank) const;
  // The sum of the excess over all steps, by rank; -1 for a rank without a score.
  double LostSeconds(int32_t rank) const;

 private:
  struct Stage {
    int32_t first = 0, size = 0;
  };
  struct Rank {
    std::vector<StepTimes> window;  // the oldest is overwritten first
    int64_t steps = 0;
    double lost = 0;
  };
  struct Estimate {
    double own = 0, wall = 0;  // medians
    double error = 0;          // standard error of the first, from the spread of the window
  };
  static size_t Index(int32_t rank) { return static_cast<size_t>(rank); }
  static Estimate EstimateOf(const Rank& rank);
  bool Judge(const Stage& stage);

  StragglerLimits limits_;
  std::vector<Stage> stages_;
  std::vector<size_t> stage_of_;  // by rank
  std::vector<Rank> ranks_;
  std::map<int32_t, double> stragglers_;
};

}  // namespace stretto::coordinator

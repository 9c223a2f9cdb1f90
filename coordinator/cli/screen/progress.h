// SPDX-License-Identifier: Apache-2.0
#pragma once
// The progress of a followed job as one line.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Speed and overlap are those of the last 10 steps. One thread.
class ProgressTracker {
 public:
  void Add(const v1alpha1::Job& job);
  void Add(const v1alpha1::StepReport& step);

  int64_t step() const { return step_; }
  // "step 120/200  loss 2.8130  12.4k tokens/s  overlap 97.1 %  1m05s left"; one line.
  std::string Line() const;
  // Returns true if the newest step deserves a line of its own in a file: the first, the last, and
  // about 20 between.
  bool IsMilestone() const;

 private:
  int64_t step_ = 0;
  int64_t total_ = 0;
  double loss_ = 0;
  bool emulated_ = false;
  std::deque<v1alpha1::StepReport> recent_;
};

// The texts of a followed job, each once. One thread.
class SampleTracker {
 public:
  // Returns those that the jobs before did not have, oldest first.
  std::vector<v1alpha1::Samples> NewsOf(const v1alpha1::Job& job);

 private:
  int64_t step_ = -1;  // of the newest
};

}  // namespace stretto::cli

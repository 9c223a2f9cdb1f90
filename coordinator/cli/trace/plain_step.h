// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step that a timeline shows if nobody asks for one.

#include <cstdint>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// How many of the newest steps the choice is made from.
inline constexpr int64_t kPlainStepChoice = 10;

// Of the steps of a rank that are added in order, the newest plain one: without an evaluation, and
// with at most a hundredth of its time spent waiting for a checkpoint. If there is none, the
// newest.
class PlainStep {
 public:
  void Add(const v1alpha1::TraceStep& step);
  // 0 if none was added.
  int64_t step() const { return plain_ != 0 ? plain_ : newest_; }

 private:
  int64_t plain_ = 0, newest_ = 0;
};

}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line on a terminal that is written over while something slow goes on.

#include <cstdint>

#include "absl/time/time.h"

namespace stretto {

// Writes to stderr where that is a terminal, else nothing. One thread.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // takes it away

  void Show(int64_t bytes, int64_t total_bytes);

 private:
  const bool live_;
  const absl::Time start_;
  absl::Time shown_ = absl::InfinitePast();
};

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// One line on a terminal that shows the progress of a slow operation.

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace stretto {

// "1.5 MiB of 3.0 MiB  512.0 KiB/s  3.0s left". `resumed_bytes` of `bytes` were done before this
// run and do not count for the rate. Without a rate there is no time left. Pure.
std::string ProgressText(int64_t bytes, int64_t total_bytes, int64_t resumed_bytes,
                         absl::Duration elapsed);

// Writes to stderr if that is a terminal, else nothing. One thread at a time.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // erases the line
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Rewrites the line, at most five times a second.
  void Show(int64_t bytes, int64_t total_bytes, int64_t resumed_bytes = 0);

 private:
  const bool live_;
  const absl::Time start_;
  absl::Time shown_ = absl::InfinitePast();
};

}  // namespace stretto

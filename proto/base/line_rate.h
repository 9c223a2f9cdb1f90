// SPDX-License-Identifier: Apache-2.0
#pragma once
// How often a line is written that somebody else can cause, so that nobody fills a log, or rotates
// older lines out of it: some at once, then some a second. What is left out is counted, and the
// next line that is written says how many.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/mutex.h"

namespace stretto {

// Thread-safe. Times are monotonic.
class LineRate {
 public:
  // `burst` lines at once, at least 1; each `refill` makes room for another one.
  explicit LineRate(int64_t burst = 1, absl::Duration refill = absl::Seconds(1))
      : burst_(burst), refill_(refill), room_(burst) {}

  // Takes room for a line and returns how many were left out since the last one; nothing if there
  // is no room, and the line is left out.
  std::optional<int64_t> Admit(absl::Duration now);
  // Takes room for a line about those that were left out, if there are any, and returns their
  // number; 0: there is nothing to write.
  int64_t TakeLeftOut(absl::Duration now);
  // Whether the next `burst` lines would be written and none was left out.
  bool Idle(absl::Duration now);

 private:
  void Refill(absl::Duration now) REQUIRES(mu_);

  const int64_t burst_;
  const absl::Duration refill_;
  Mutex mu_;
  int64_t room_ GUARDED_BY(mu_);
  int64_t left_out_ GUARDED_BY(mu_) = 0;
  absl::Duration refilled_ GUARDED_BY(mu_) = -absl::InfiniteDuration();
};

// " (3 more were left out)", or nothing for 0: the end of a line.
std::string LeftOutNote(int64_t left_out);

// A rate for each name, of which there are at most kMaxNames: whoever comes with another one shares
// the rate of the name "". Thread-safe.
class LineRates {
 public:
  static constexpr size_t kMaxNames = 1'024;

  LineRates(int64_t burst, absl::Duration refill) : burst_(burst), refill_(refill) {}
  // As LineRate's.
  std::optional<int64_t> Admit(const std::string& name, absl::Duration now);
  // Of every name, and forgets those that are idle.
  std::vector<std::pair<std::string, int64_t>> TakeLeftOut(absl::Duration now);

 private:
  const int64_t burst_;
  const absl::Duration refill_;
  Mutex mu_;
  std::map<std::string, LineRate> rates_ GUARDED_BY(mu_);
};

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads that share one loop at a time.

#include <barrier>
#include <cstdint>
#include <iterator>
#include <optional>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace stretto {

// Used by one thread, which takes part in the work.
class Team {
 public:
  using Work = absl::FunctionRef<void(int64_t begin, int64_t end)>;

  // Has fewer threads if the system does not provide more.
  explicit Team(int threads);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int size() const { return std::ssize(threads_) + 1; }

  // Calls `work` on ranges that cover [0, count), at most one per thread, and waits for all of
  // them. A range has at least `grain` elements, because shorter ones are not worth waking a
  // thread.
  void Run(int64_t count, int64_t grain, Work work);

 private:
  void Follow(int number);
  void DoPart(int number) const;

  std::barrier<> begin_, end_;
  std::optional<Work> work_;  // set before begin_, valid until end_; nothing: threads end
  int64_t count_ = 0, parts_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace stretto

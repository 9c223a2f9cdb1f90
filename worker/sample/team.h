// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads that share one loop at a time.

#include <barrier>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace stretto {

// Used by one thread, which takes part in the work.
class Team {
 public:
  using Work = absl::FunctionRef<void(int64_t begin, int64_t end)>;

  // Fewer where the system gives no more.
  explicit Team(int threads);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls `work` on ranges that make up [0, count), one per thread at most, and waits for all of
  // them. A range is `grain` long or longer: what is shorter is not worth waking anybody.
  void Run(int64_t count, int64_t grain, Work work);

 private:
  void Follow(int number);
  void DoPart(int number) const;

  std::barrier<> begin_, end_;
  std::optional<Work> work_;  // set before begin_, valid until end_; nothing: the team dissolves
  int64_t count_ = 0, parts_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace stretto

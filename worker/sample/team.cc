// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/team.h"

#include <algorithm>
#include <system_error>

#include "proto/base/check.h"

namespace stretto {

Team::Team(int threads) : begin_(threads), end_(threads) {
  STRETTO_CHECK(threads > 0);
  for (int number = 1; number < threads; ++number) {
    try {
      threads_.emplace_back([this, number] { Follow(number); });
    } catch (const std::system_error&) {  // process limit: works with fewer threads
      for (; number < threads; ++number) {
        begin_.arrive_and_drop();
        end_.arrive_and_drop();
      }
    }
  }
}

Team::~Team() {
  work_.reset();
  begin_.arrive_and_wait();
  for (std::thread& thread : threads_) thread.join();
}

void Team::Run(int64_t count, int64_t grain, Work work) {
  const int64_t parts = std::min<int64_t>(size(), count / grain);
  if (parts <= 1) {
    if (count > 0) work(0, count);
    return;
  }
  work_.emplace(work);
  count_ = count;
  parts_ = parts;
  begin_.arrive_and_wait();
  DoPart(0);
  end_.arrive_and_wait();
}

void Team::Follow(int number) {
  while (true) {
    begin_.arrive_and_wait();
    if (!work_.has_value()) return;
    DoPart(number);
    end_.arrive_and_wait();
  }
}

void Team::DoPart(int number) const {
  if (number >= parts_) return;
  (*work_)(count_ * number / parts_, count_ * (number + 1) / parts_);
}

}  // namespace stretto

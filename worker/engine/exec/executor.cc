// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/executor.h"

#include <chrono>

namespace stretto {

int64_t NowNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace stretto

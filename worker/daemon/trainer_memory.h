// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a trainer's process holds of this node's memory.

#include <cstdint>
#include <string>

namespace stretto::daemon {

struct TrainerMemory {
  std::string job_id;
  int32_t rank = 0;
  int64_t resident_bytes = 0;
};

}  // namespace stretto::daemon

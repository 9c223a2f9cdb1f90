// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a trainer's process on this node.

#include <cstdint>
#include <string>

namespace stretto::daemon {

struct TrainerMemory {
  std::string job_id;
  int32_t rank = 0;
  int64_t resident_bytes = 0;
};

}  // namespace stretto::daemon

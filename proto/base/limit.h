// SPDX-License-Identifier: Apache-2.0
#pragma once
// One row of the table of limits (limits.h).

#include <cstdint>

namespace stretto {

// What a limit counts.
enum class LimitUnit : uint8_t { kCount, kBytes, kSeconds, kMilliseconds };

struct Limit {
  const char* what;  // is limited
  int64_t value;     // the default, if there is a flag; 0: by default there is no limit
  LimitUnit unit;
  // Of stretto-coordinator, "--max-spec-bytes", or of stretto-worker, "stretto-worker --max-x";
  // empty: the limit is fixed.
  const char* flag;
  const char* beyond;  // what happens
  const char* test;    // that crosses it, "Suite.Name"
};

}  // namespace stretto

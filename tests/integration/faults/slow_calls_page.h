// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a test and the preloaded library (slow_calls_library.cc) share: a file that both map.

#include <cstdint>

// Nanoseconds; read and written atomically. A delay is taken by the first call that it is for.
struct SlowCallsPage {
  int64_t sync_ns;         // of the next fsync or fdatasync
  int64_t open_ns;         // of the next open of *.safetensors for reading
  int64_t clock_ahead_ns;  // of the wall clock, in every reading
};

// The environment variable with the path of the file.
inline constexpr char kSlowCallsPage[] = "STRETTO_SLOW_CALLS_PAGE";

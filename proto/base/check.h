// SPDX-License-Identifier: Apache-2.0
#pragma once
// CHECK is for our own bugs and is active in release builds. Never use it for input, files, network
// or device state. It has no dependency, so kernels may use it too.

#include <cstdio>
#include <cstdlib>

namespace stretto::internal {
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
  std::abort();
}
}  // namespace stretto::internal

#define STRETTO_CHECK(condition)                                        \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::stretto::internal::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

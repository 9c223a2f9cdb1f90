// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel whose blocks write down where and when they run, in place of a collective's.

#include <cstddef>
#include <cstdint>

namespace stretto {

struct Stamp {
  int64_t begin = 0;  // nanoseconds of the device's clock, which is the same on all SMs
  int32_t sm = -1;
};

struct StampLaunch {
  int blocks = 1;
  int threads = 32;
  size_t shared_bytes = 0;  // of each block
  int64_t stay_nanoseconds = 0;
};

// Enqueues the kernel on a cudaStream_t: block b writes stamps[b], which the device can reach, and
// stays resident. Returns null, or the reason why the launch failed.
const char* LaunchStamps(const StampLaunch& launch, Stamp* stamps, void* stream);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Emulates the load of a collective on one GPU, without peers: a few blocks stay resident as long
// as the transfer takes and move the buffer through memory at its pace. Figures taken with it are
// labelled "emulated link".

#include <cstdint>

#include "kernels/dtype.h"

namespace stretto {

inline constexpr int kMostLinkScale = 256;  // bf16 holds all integers up to it

// out[c * count + i] = scale * in[i] for every copy c; `in` may be any of the copies. The kernel
// has `blocks` blocks of 512 threads. Each is resident for at least latency + transfer after its
// own start, and longer if it cannot keep the pace.
struct LinkTransfer {
  DType dtype = DType::kF32;
  const void* in = nullptr;
  void* out = nullptr;
  int64_t count = 0;
  int copies = 1;
  int scale = 1;  // at most kMostLinkScale
  int blocks = 1;
  int64_t latency_nanoseconds = 0;   // before the first element moves
  int64_t transfer_nanoseconds = 0;  // from the first to the last
};

// Enqueues the transfer on a cudaStream_t. Returns null, or the reason why the launch failed.
const char* LaunchLinkTransfer(const LinkTransfer& transfer, void* stream);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scratch memory of the calling thread: one growing buffer per use.

#include <cstddef>

namespace stretto::cpu {

enum class Buffer {
  kScratchpad,
  kTailIn,
  kTailOut,
  kConvertedX,
  kConvertedBias,
  kConvertedY,
  kDenseRow,
  kDropFactors,
  kAttention,
  kCount,
};

// Returns at least `bytes` bytes, 64-byte aligned, valid until the thread requests a larger buffer
// for the same use or ends. The contents are undefined.
void* ThreadBuffer(Buffer use, size_t bytes);

}  // namespace stretto::cpu

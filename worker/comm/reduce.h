// SPDX-License-Identifier: Apache-2.0
#pragma once
// What implementations of Communicator share: how a tensor is split into parts, and the one
// definition of a reduction.

#include <cstdint>
#include <span>

#include "kernels/dtype.h"
#include "worker/comm/collective/collective_kind.h"

namespace stretto {

// First element of part `part` when `count` elements are split into `parts`: parts differ by at
// most one element, and may be empty.
constexpr int64_t PartBegin(int64_t count, int part, int parts) {
  return count / parts * part + (part < count % parts ? part : count % parts);
}

// Reduces element `begin`..`end` over `inputs` in the order given and writes the result to the same
// elements of every output. Sums are in f32 (bf16 rounded once; i32 wraps). An output may be an
// input.
void Reduce(DType dtype, ReduceOp op, std::span<const void* const> inputs,
            std::span<void* const> outputs, int64_t begin, int64_t end);

}  // namespace stretto

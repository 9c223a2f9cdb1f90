// SPDX-License-Identifier: Apache-2.0

// Reduces element by element in the order of the inputs, in blocks that stay in cache. bf16 is
// added in f32 and rounded once, at the end.

#include "worker/comm/reduce.h"

#include <algorithm>
#include <array>

#include "kernels/bf16.h"

namespace stretto {
namespace {

// Enough to amortise the loop over ranks, small enough to stay in the first-level cache.
constexpr int64_t kBlock = 1024;

struct F32 {
  using Storage = float;
  using Value = float;
  static float Load(float stored) { return stored; }
  static float Store(float value) { return value; }
};
struct Bf16 {
  using Storage = BF16;
  using Value = float;
  static float Load(BF16 stored) { return ToFloat(stored); }
  static BF16 Store(float value) { return ToBF16(value); }
};
// Sums as unsigned, so that overflow wraps instead of being undefined.
struct I32 {
  using Storage = int32_t;
  using Value = int32_t;
  static int32_t Load(int32_t stored) { return stored; }
  static int32_t Store(int32_t value) { return value; }
};

struct Sum {
  static float Combine(float a, float b) { return a + b; }
  static int32_t Combine(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
  }
};
struct Max {
  static float Combine(float a, float b) { return b > a || b != b ? b : a; }
  static int32_t Combine(int32_t a, int32_t b) { return std::max(a, b); }
};

template <class Type, class Operation>
void ReduceTyped(std::span<const void* const> inputs, std::span<void* const> outputs, int64_t begin,
                 int64_t end) {
  using Storage = typename Type::Storage;
  std::array<typename Type::Value, kBlock> total;
  for (int64_t start = begin; start < end; start += kBlock) {
    const int64_t n = std::min(kBlock, end - start);
    const Storage* first = static_cast<const Storage*>(inputs[0]) + start;
    for (int64_t i = 0; i < n; ++i) total[i] = Type::Load(first[i]);
    for (const void* input : inputs.subspan(1)) {
      const Storage* next = static_cast<const Storage*>(input) + start;
      for (int64_t i = 0; i < n; ++i) {
        auto& value = total[i];
        value = Operation::Combine(value, Type::Load(next[i]));
      }
    }
    for (void* output : outputs) {
      Storage* target = static_cast<Storage*>(output) + start;
      for (int64_t i = 0; i < n; ++i) target[i] = Type::Store(total[i]);
    }
  }
}

template <class Operation>
void ReduceWith(DType dtype, std::span<const void* const> inputs, std::span<void* const> outputs,
                int64_t begin, int64_t end) {
  switch (dtype) {
    case DType::kF32:
      return ReduceTyped<F32, Operation>(inputs, outputs, begin, end);
    case DType::kBF16:
      return ReduceTyped<Bf16, Operation>(inputs, outputs, begin, end);
    case DType::kI32:
      return ReduceTyped<I32, Operation>(inputs, outputs, begin, end);
  }
}

}  // namespace

void Reduce(DType dtype, ReduceOp op, std::span<const void* const> inputs,
            std::span<void* const> outputs, int64_t begin, int64_t end) {
  if (op == ReduceOp::kSum) {
    ReduceWith<Sum>(dtype, inputs, outputs, begin, end);
  } else {
    ReduceWith<Max>(dtype, inputs, outputs, begin, end);
  }
}

}  // namespace stretto

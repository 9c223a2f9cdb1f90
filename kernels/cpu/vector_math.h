// SPDX-License-Identifier: Apache-2.0
#pragma once
// Inner loops of the operations: elements as f32, exp without libm, and reductions over a row.
//
// Loops have `#pragma omp simd` and run over one row, so an element's place in the vector loop
// depends only on its column, and the order of a sum only on the row's length.

#include <bit>
#include <cstdint>
#include <utility>

#include "kernels/bf16.h"
#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/tensor_view.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

// e^x, relative error below 2e-7 for x in [-87, 88]; 0 below -87.7, infinity above 89, NaN for NaN.
inline float Exp(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  // The bounds give exponent fields 255 and 0: infinity and 0. Comparisons keep NaN.
  float bounded = x > 89.0f ? 89.0f : x;
  bounded = bounded < -88.0f ? -88.0f : bounded;
  const float shifted = bounded * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * kLn2High) - n * kLn2Low;
  // Taylor series to r^7; |r| <= ln(2)/2, so the rest is below 6e-9.
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t exponent =
      std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound) + 127u;
  return p * std::bit_cast<float>(exponent << 23);
}

// 1 / (1 + e^-x). tanh(z) = 2 * Sigmoid(2 z) - 1.
inline float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

// The vector of the instruction set that this file is compiled for.
#ifdef __AVX512F__
constexpr int64_t kLanes = 16;
#else
constexpr int64_t kLanes = 8;
#endif
typedef float Lanes __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

// Lane i of the result is lane kOrder(i) of the concatenation of a and b.
template <int (*kOrder)(int), class Vector, size_t... kLane>
Vector Shuffle(Vector a, Vector b, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(a, b, kOrder(kLane)...);
}
template <int (*kOrder)(int), class Vector>
Vector Shuffle(Vector a, Vector b) {
  return Shuffle<kOrder>(a, b, std::make_index_sequence<sizeof(a) / sizeof(a[0])>());
}
template <int kDistance>
constexpr int Across(int lane) {
  return lane ^ kDistance;
}

// Returns b where it is larger than a; a NaN in b never is.
inline Lanes Larger(Lanes a, Lanes b) { return a < b ? b : a; }
inline Lanes Plus(Lanes a, Lanes b) { return a + b; }

// Returns combine(... combine(start, x[0]) ..., x[count - 1]) in vector order: two vectors
// alternate, then lanes are combined half by half, then the elements after the last whole vector.
template <class Combine>
float Reduce(const float* x, int64_t count, float start, Combine combine) {
  const auto at = [x](int64_t i) { return *reinterpret_cast<const Lanes*>(x + i); };
  Lanes first = Lanes{} + start, second = first;
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    first = combine(first, at(i));
    second = combine(second, at(i + kLanes));
  }
  if (i + kLanes <= count) first = combine(first, at(i)), i += kLanes;
  first = combine(first, second);
  if constexpr (kLanes > 8) first = combine(first, Shuffle<Across<8>>(first, first));
  first = combine(first, Shuffle<Across<4>>(first, first));
  first = combine(first, Shuffle<Across<2>>(first, first));
  first = combine(first, Shuffle<Across<1>>(first, first));
  for (; i < count; ++i) first = combine(first, Lanes{} + x[i]);
  return first[0];
}

// Returns the largest element, ignoring NaN; -infinity for count 0.
inline float RowMax(const float* x, int64_t count) {
  return Reduce(x, count, -__builtin_huge_valf(), Larger);
}
inline float RowSum(const float* x, int64_t count) { return Reduce(x, count, 0.0f, Plus); }

template <class T>
void ToFloats(const T* from, int64_t count, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = ToFloat(from[i]);
}

template <class T>
void FromFloats(const float* from, int64_t count, T* to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = FromFloat<T>(from[i]);
}

// Calls f with a float or a BF16, whichever is the tensor's element type.
template <class F>
void WithType(DType dtype, F&& f) {
  STRETTO_CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  if (dtype == DType::kBF16) {
    f(BF16{});
  } else {
    f(float{});
  }
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS

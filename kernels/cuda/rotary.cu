// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/cuda/rows.h"

namespace stretto::cuda {
namespace {

constexpr int kMostPairs = 128;
constexpr int kRowThreads = 128;

// The full turns of each column pair per position; negative for the inverse.
struct Frequencies {
  double at[kMostPairs];
};

struct HeadLayout {
  int length, turned, kv_heads;  // turned: queries of a group and their key
};

// Cosines and sines of a pack of column pairs at one position.
template <class T>
struct Turn {
  float cosines[kPack<T>], sines[kPack<T>];
};

template <class T>
__device__ __forceinline__ Turn<T> TurnAt(const double (&frequency)[kPack<T>], int position) {
  Turn<T> turn;
  for (int k = 0; k < kPack<T>; ++k) {
    // Remove the whole turns in f64, so that far positions keep their precision.
    const double turns = position * frequency[k];
    sincospif(2.0f * static_cast<float>(turns - rint(turns)), &turn.sines[k], &turn.cosines[k]);
  }
  return turn;
}

template <class T>
__device__ __forceinline__ void TurnPacks(const Turn<T>& turn, Pack<T>& low, Pack<T>& high) {
  for (int k = 0; k < kPack<T>; ++k) {
    const float a = ToFloat(low.at[k]), b = ToFloat(high.at[k]);
    low.at[k] = Round<T>(a * turn.cosines[k] - b * turn.sines[k]);
    high.at[k] = Round<T>(b * turn.cosines[k] + a * turn.sines[k]);
  }
}

// A warp processes a row. Its lanes process the packs of half a head, as many heads at a time as
// fit, and so compute the angles of a row once. halves: the operand in rows of half a head.
template <class F>
__global__ void __launch_bounds__(kRowThreads)
    TurnRows(Frequencies frequencies, HeadLayout heads, int64_t rows, typename F::Out halves) {
  using T = typename F::T;
  const int packs = (halves.columns + kPack<T> - 1) / kPack<T>, slots = kWarpSize / packs;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize, slot = lane / packs;
  const int column = lane % packs * kPack<T>;
  if (slot >= slots) return;
  double frequency[kPack<T>];
  for (int k = 0; k < kPack<T>; ++k)
    frequency[k] = column + k < halves.columns ? frequencies.at[column + k] : 0.0;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  const int64_t first = int64_t{blockIdx.x} * warps + threadIdx.x / kWarpSize;
  for (int64_t row = first; row < rows; row += int64_t{gridDim.x} * warps) {
    const Turn<T> turn = TurnAt<T>(frequency, static_cast<int>(row % heads.length));
    const int64_t row_heads = row * heads.kv_heads * (heads.turned + 1);
    // high: the key/value head; low: the query of its group, or its key.
    for (Odometer head(slot, slots, heads.turned); head.high < heads.kv_heads; head.Next()) {
      const int64_t half = 2 * (row_heads + head.high * (heads.turned + 1) + head.low);
      Pack<T> low = halves.Load(half, column), high = halves.Load(half + 1, column);
      TurnPacks<T>(turn, low, high);
      halves.Store(half, column, low);
      halves.Store(half + 1, column, high);
    }
  }
}

}  // namespace

void CudaOpsImpl::Rotary(AttentionShape shape, const RotarySpeed& speed, bool inverse,
                         TensorView qkv) {
  STRETTO_CHECK(qkv.columns() == shape.qkv_columns() && shape.head_dim % 2 == 0);
  STRETTO_CHECK(shape.heads % shape.kv_heads == 0 && shape.head_dim / 2 <= kMostPairs);
  const int64_t pairs = shape.head_dim / 2;
  Frequencies frequencies = {};
  for (int64_t i = 0; i < pairs; ++i) {
    const double radians = RotaryFrequency(speed, i, pairs);
    frequencies.at[i] = (inverse ? -radians : radians) / (2 * M_PI);
  }
  const HeadLayout heads{.length = static_cast<int>(shape.sequence_length),
                         .turned = static_cast<int>(shape.heads / shape.kv_heads) + 1,
                         .kv_heads = static_cast<int>(shape.kv_heads)};
  WithForm(pairs, {qkv}, [&](auto form) {
    using F = decltype(form);
    Walk("rotary", CeilDivide(qkv.rows(), kRowThreads / kWarpSize), {.threads = kRowThreads},
         TurnRows<F>, frequencies, heads, qkv.rows(), PlainAs<typename F::Out>(qkv, pairs));
  });
}

}  // namespace stretto::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of operands, plain or blocked (kernels/ops.h), by packs; the walk of a grid's threads over
// them; and rows that a block holds in registers. Which thread has which element depends only on
// the length of the row, not on its address, layout or the grid, and so do the bits of sums over a
// row.

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/cuda_ops_impl.h"
#include "kernels/cuda/device.h"

namespace stretto::cuda {

inline bool Aligned(const void* data, size_t bytes = 16) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}
inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows that are contiguous or, if blocked, in several pieces. T may be const. kPacked: every pack
// of a row is complete and aligned, so that 16-byte accesses work; otherwise elements move one by
// one.
template <class T, bool kPacked>
struct Rows {
  using Element = std::remove_const_t<T>;

  T* data;
  int64_t count;       // of rows
  int columns, width;  // of a row, of one piece of it

  __device__ __forceinline__ int64_t At(int64_t row, int column) const {
    if (width == columns) return row * columns + column;
    const int piece = column / width;
    return (piece * count + row) * width + (column - piece * width);
  }

  // `column` starts a pack; elements beyond the row are zeros.
  __device__ __forceinline__ Pack<Element> Load(int64_t row, int column) const {
    Pack<Element> pack = {};
    if constexpr (kPacked) {
      if (column < columns) pack = LoadPack<Element>(data + At(row, column));
    } else {
      for (int i = 0; i < kPack<T>; ++i)
        if (column + i < columns) pack.at[i] = data[At(row, column + i)];
    }
    return pack;
  }
  __device__ __forceinline__ void Store(int64_t row, int column, const Pack<Element>& pack) const {
    if constexpr (kPacked) {
      if (column < columns) StorePack(data + At(row, column), pack);
    } else {
      for (int i = 0; i < kPack<T>; ++i)
        if (column + i < columns) data[At(row, column + i)] = pack.at[i];
    }
  }
};

// The variant that a kernel is compiled for: the element type, whether all its operands are packed,
// and how many packs of a row a thread holds (0: it holds none).
template <class Type, bool kWhole, int kHeld = 0>
struct Form {
  using T = Type;
  using In = Rows<const T, kWhole>;
  using Out = Rows<T, kWhole>;
  static constexpr bool kPacked = kWhole;
  static constexpr int kPacks = kHeld;
};

// Returns an operand that may be blocked as rows of `columns`.
template <class R>
R BlockedAs(const TensorView& view, int64_t columns) {
  const int64_t width = view.rank == 3 ? view.columns() : columns;
  STRETTO_CHECK(columns > 0 && columns < (int64_t{1} << 30));
  STRETTO_CHECK(view.rank != 3 || view.shape[0] * width == columns);
  return {.data = view.as<std::remove_pointer_t<decltype(R::data)>>(),
          .count = view.count() / columns,
          .columns = static_cast<int>(columns),
          .width = static_cast<int>(width)};
}
// Returns a plain operand as rows of `columns`; without data if it is absent.
template <class R>
R PlainAs(const TensorView& view, int64_t columns) {
  if (view.data == nullptr) return {};
  TensorView flat = view;
  flat.rank = 1;
  flat.shape[0] = view.count();
  return BlockedAs<R>(flat, columns);
}

template <class T>
bool ArePacked(int64_t columns, std::initializer_list<TensorView> operands) {
  bool packed = true;
  for (const TensorView& view : operands) {
    const int64_t width = view.rank == 3 ? view.columns() : columns;
    packed = packed && Aligned(view.data) && width % kPack<T> == 0;
  }
  return packed;
}

// Calls body(Form) for the type of `operands`, which are viewed as rows of `columns`.
template <class Body>
void WithForm(int64_t columns, std::initializer_list<TensorView> operands, Body body) {
  WithType(operands.begin()->dtype, [&](auto type) {
    using T = decltype(type);
    if (ArePacked<T>(columns, operands)) {
      body(Form<T, true>{});
    } else {
      body(Form<T, false>{});
    }
  });
}

// A number of two digits, the lower one below `base`, that counts up in steps: it divides once at
// the start and never again.
struct Odometer {
  int64_t high, step_high;
  int low, step_low, base;

  __device__ Odometer(int64_t first, int64_t step, int base)
      : high(first / base),
        step_high(step / base),
        low(static_cast<int>(first % base)),
        step_low(static_cast<int>(step % base)),
        base(base) {}
  __device__ __forceinline__ void Next() {
    high += step_high;
    low += step_low;
    if (low < base) return;
    low -= base;
    ++high;
  }
};

inline constexpr int kWalkThreads = 256;

// Calls body(row, column) for every pack of the rows, once in the grid.
template <class T, bool kPacked, class Body>
__device__ __forceinline__ void ForEachPack(const Rows<T, kPacked>& rows, Body body) {
  const int packs = (rows.columns + kPack<T> - 1) / kPack<T>;
  Odometer at(int64_t{blockIdx.x} * blockDim.x + threadIdx.x, int64_t{gridDim.x} * blockDim.x,
              packs);
  for (; at.high < rows.count; at.Next()) body(at.high, at.low * kPack<T>);
}
// Returns the number of blocks of kWalkThreads for ForEachPack.
template <class T, bool kPacked>
int64_t PackBlocks(const Rows<T, kPacked>& rows) {
  return CeilDivide(rows.count * CeilDivide(rows.columns, kPack<T>), kWalkThreads);
}

// A pack in as few registers as it has words.
template <class T>
struct HeldPack {
  uint32_t words[4] = {};

  static __device__ __forceinline__ HeldPack Of(const Pack<T>& pack) {
    HeldPack held;
    for (int i = 0; i < 4; ++i) {
      if constexpr (sizeof(T) == 2) {
        held.words[i] = pack.at[2 * i].bits | uint32_t{pack.at[2 * i + 1].bits} << 16;
      } else {
        held.words[i] = std::bit_cast<uint32_t>(pack.at[i]);
      }
    }
    return held;
  }
  __device__ __forceinline__ float operator[](int k) const {
    if constexpr (sizeof(T) == 2) {
      const uint32_t word = words[k / 2];
      return std::bit_cast<float>(k % 2 == 0 ? word << 16 : word & 0xffff0000u);
    } else {
      return std::bit_cast<float>(words[k]);
    }
  }
};

// A row held by a block: pack t + i * threads of it is at[i] of thread t.
template <class F>
struct HeldRow {
  HeldPack<typename F::T> at[F::kPacks];

  // Makes later uses unpack the words again instead of keeping unpacked values in registers.
  __device__ __forceinline__ void StayPacked() {
#if defined(__CUDACC__)
    for (int i = 0; i < F::kPacks; ++i)
      for (uint32_t& word : at[i].words) asm volatile("" : "+r"(word));
#endif
  }
};
template <class F>
__device__ __forceinline__ int HeldColumn(int i) {
  return (i * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kPack<typename F::T>;
}
template <class F>
__device__ __forceinline__ HeldRow<F> Hold(const typename F::In& rows, int64_t row) {
  HeldRow<F> held;
  for (int i = 0; i < F::kPacks; ++i)
    held.at[i] = HeldPack<typename F::T>::Of(rows.Load(row, HeldColumn<F>(i)));
  return held;
}

// Whether a row beside those that a block holds, of which each pack is used once, is loaded pack by
// pack when it is used. A short one is held from the start, so that all its loads are under way at
// once. With long rows the compiler would put some of them into local memory: a thread of 1,024 has
// 64 registers.
template <class F>
inline constexpr bool kLoadsLate = F::kPacks > 2;

inline constexpr int kMostThreads = 1024;

// Returns the threads of a block that holds a row, with `each` packs for a thread.
template <class T>
int HoldingThreads(int64_t columns, int64_t each) {
  return static_cast<int>(CeilDivide(CeilDivide(columns, kPack<T>), each * kWarpSize)) * kWarpSize;
}

// Like WithForm, for a block that holds a row: calls body(Form, Spread).
template <class Body>
void WithHeldForm(int64_t columns, std::initializer_list<TensorView> operands, Body body) {
  WithForm(columns, operands, [&](auto form) {
    using T = typename decltype(form)::T;
    constexpr bool kPacked = decltype(form)::kPacked;
    const int64_t packs = CeilDivide(columns, kPack<T>);
    STRETTO_CHECK(packs <= 4 * kMostThreads);
    if (packs <= 2 * kMostThreads) {
      body(Form<T, kPacked, 2>{}, Spread{.threads = HoldingThreads<T>(columns, 2)});
    } else {
      body(Form<T, kPacked, 4>{}, Spread{.threads = HoldingThreads<T>(columns, 4)});
    }
  });
}

}  // namespace stretto::cuda

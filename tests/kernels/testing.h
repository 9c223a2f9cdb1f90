// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors that own their memory, seeded values, and comparison with a double reference.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/cpu/cpu_ops.h"

namespace stretto {

using Doubles = std::vector<double>;

// Where tensors lie: memory that the host and the operations can reach.
struct TensorMemory {
  void* (*allocate)(size_t bytes);
  void (*release)(void* memory);
};
inline TensorMemory tensor_memory = {std::malloc, std::free};

template <class T>
struct TensorAllocator {
  using value_type = T;
  T* allocate(size_t count) { return static_cast<T*>(tensor_memory.allocate(count * sizeof(T))); }
  void deallocate(T* memory, size_t) { tensor_memory.release(memory); }
  bool operator==(const TensorAllocator&) const = default;
};

// Starts poisoned: every float is NaN, so that an element an operation leaves out shows.
class Tensor {
 public:
  Tensor(DType dtype, int64_t rows, int64_t columns)
      : dtype_(dtype), rows_(rows), columns_(columns) {
    Poison();
  }

  void Poison() { bytes_.assign(static_cast<size_t>(rows_ * columns_) * SizeOf(dtype_), 0xff); }
  void Zero() { bytes_.assign(bytes_.size(), 0); }

  // Uniform in [-scale, scale), in the tensor's precision.
  Tensor& Fill(uint32_t seed, double scale = 1.0) {
    uint32_t state = seed * 2654435761u + 12345u;
    for (int64_t i = 0; i < count(); ++i) {
      state = state * 1664525u + 1013904223u;
      Set(i, scale * (static_cast<double>(state >> 8) / 8388608.0 - 1.0));
    }
    return *this;
  }
  // Integers in [0, limit).
  Tensor& FillIndices(uint32_t seed, int32_t limit) {
    uint32_t state = seed * 2654435761u + 12345u;
    for (int64_t i = 0; i < count(); ++i) {
      state = state * 1664525u + 1013904223u;
      reinterpret_cast<int32_t*>(bytes_.data())[i] =
          static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(limit));
    }
    return *this;
  }

  TensorView view() { return Rows(0, rows_); }
  TensorView Rows(int64_t first, int64_t rows) {
    TensorView view{.data = bytes_.data() + static_cast<size_t>(first * columns_) * SizeOf(dtype_),
                    .dtype = dtype_,
                    .shape = {rows, columns_, 1, 1},
                    .rank = 2};
    return view;
  }
  // The same elements in the blocked layout of ops.h, [pieces][rows][columns/pieces].
  Tensor Blocked(int64_t pieces) const {
    Tensor blocked(dtype_, rows_, columns_);
    const int64_t width = columns_ / pieces;
    const size_t size = SizeOf(dtype_);
    for (int64_t i = 0; i < count(); ++i) {
      const int64_t row = i / columns_, column = i % columns_;
      const int64_t at = (column / width * rows_ + row) * width + column % width;
      std::memcpy(&blocked.bytes_[static_cast<size_t>(at) * size],
                  &bytes_[static_cast<size_t>(i) * size], size);
    }
    return blocked;
  }
  TensorView BlockedView(int64_t pieces) {
    TensorView view = Rows(0, rows_);
    view.shape = {pieces, rows_, columns_ / pieces, 1};
    view.rank = 3;
    return view;
  }
  int64_t count() const { return rows_ * columns_; }
  // Valid until the next call.
  const std::vector<unsigned char>& bytes() const {
    copy_.assign(bytes_.begin(), bytes_.end());
    return copy_;
  }

  double At(int64_t i) const {
    const size_t at = static_cast<size_t>(i);
    if (dtype_ == DType::kBF16) return ToFloat(reinterpret_cast<const BF16*>(bytes_.data())[at]);
    if (dtype_ == DType::kI32) return reinterpret_cast<const int32_t*>(bytes_.data())[at];
    return reinterpret_cast<const float*>(bytes_.data())[at];
  }
  void Set(int64_t i, double value) {
    const size_t at = static_cast<size_t>(i);
    if (dtype_ == DType::kBF16) {
      reinterpret_cast<BF16*>(bytes_.data())[at] = ToBF16(static_cast<float>(value));
    } else if (dtype_ == DType::kI32) {
      reinterpret_cast<int32_t*>(bytes_.data())[at] = static_cast<int32_t>(value);
    } else {
      reinterpret_cast<float*>(bytes_.data())[at] = static_cast<float>(value);
    }
  }
  Doubles doubles() const {
    Doubles values;
    for (int64_t i = 0; i < count(); ++i) values.push_back(At(i));
    return values;
  }
  DType dtype() const { return dtype_; }

 private:
  DType dtype_;
  int64_t rows_, columns_;
  std::vector<unsigned char, TensorAllocator<unsigned char>> bytes_;
  mutable std::vector<unsigned char> copy_;
};

// |got - want| <= relative |want| + absolute max|want|.
// absolute: arithmetic is f32 in every type; 1e-5 covers sums of some hundred products (256 * 2^-24
// = 1.5e-5 in the worst case, far less in practice). relative: bf16 results are rounded once, by at
// most 2^-9 of their size; 2^-8 also covers a value next to a rounding boundary.
inline void ExpectNear(const Tensor& got, const Doubles& want, double absolute = 1e-5) {
  ASSERT_EQ(got.count(), static_cast<int64_t>(want.size()));
  const double relative = got.dtype() == DType::kBF16 ? 1.0 / 256 : 0.0;
  double largest = 1e-3;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < want.size(); ++i) {
    const double value = got.At(static_cast<int64_t>(i));
    ASSERT_LE(std::abs(value - want[i]), relative * std::abs(want[i]) + absolute * largest)
        << "element " << i << " is " << value << ", expected " << want[i];
  }
}

// Gradient of `loss` with respect to *x by central differences in f64, at every `stride`-th
// element; the truncation error is of order 1e-8 for these functions. Others stay NaN.
inline Doubles Differences(const std::function<double()>& loss, Doubles* x, size_t stride = 1) {
  constexpr double kStep = 1e-4;
  Doubles gradient(x->size(), std::numeric_limits<double>::quiet_NaN());
  for (size_t i = 0; i < x->size(); i += stride) {
    const double at = (*x)[i];
    (*x)[i] = at + kStep;
    const double above = loss();
    (*x)[i] = at - kStep;
    const double below = loss();
    (*x)[i] = at;
    gradient[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

inline double Dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// What the operations are tested as: an element type and an implementation.
struct Mode {
  std::string name;
  DType dtype;
  std::function<std::unique_ptr<Ops>()> make;
  // Whether sums over rows add them in ascending order, one by one.
  bool rows_ascend = true;
  // Has later calls use that many SMs, 0: all. Where there are any.
  std::function<void(Ops&, int)> limit_sms = {};
};
// Of the implementation that this binary tests (cpu_modes.cc, cuda_modes.cc, emulated_modes.cc).
std::vector<Mode> AllModes();

inline std::string NameOfMode(const testing::TestParamInfo<Mode>& info) { return info.param.name; }
inline void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name; }

class OpsTest : public testing::TestWithParam<Mode> {
 protected:
  OpsTest() : ops_(GetParam().make()) {}
  Tensor Of(int64_t rows, int64_t columns) { return {GetParam().dtype, rows, columns}; }
  Tensor F32(int64_t rows, int64_t columns) { return {DType::kF32, rows, columns}; }
  Tensor Index(int64_t rows) { return {DType::kI32, rows, 1}; }

  std::unique_ptr<Ops> ops_;
};

inline Tensor KeysOf(uint32_t seed_low, uint32_t seed_high, uint32_t step, uint32_t first_token) {
  Tensor keys(DType::kI32, 1, kKeyCount);
  const uint32_t words[kKeyCount] = {seed_low, seed_high, step, first_token};
  std::memcpy(keys.view().data, words, sizeof(words));
  return keys;
}

#define STRETTO_ALL_MODES(suite) \
  INSTANTIATE_TEST_SUITE_P(Modes, suite, testing::ValuesIn(AllModes()), NameOfMode)

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small tensors of any dtype whose values are whole numbers, so that sums are exact.

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/bf16.h"
#include "kernels/tensor_view.h"

namespace stretto::testing {

class Tensor {
 public:
  Tensor(DType dtype, int64_t count)
      : dtype_(dtype), count_(count), bytes_(static_cast<size_t>(count) * SizeOf(dtype)) {}

  TensorView view() { return Part(0, count_); }
  TensorView Part(int64_t begin, int64_t count) {
    return {.data = bytes_.data() + static_cast<size_t>(begin) * SizeOf(dtype_),
            .dtype = dtype_,
            .shape = {count, 1, 1, 1},
            .rank = 1};
  }
  const std::vector<char>& bytes() const { return bytes_; }

  void Set(int64_t index, float value) {
    char* at = bytes_.data() + static_cast<size_t>(index) * SizeOf(dtype_);
    const BF16 bf16 = ToBF16(value);
    const auto i32 = static_cast<int32_t>(value);
    switch (dtype_) {
      case DType::kF32:
        std::memcpy(at, &value, 4);
        break;
      case DType::kBF16:
        std::memcpy(at, &bf16, 2);
        break;
      case DType::kI32:
        std::memcpy(at, &i32, 4);
        break;
    }
  }
  float Get(int64_t index) const {
    const char* at = bytes_.data() + static_cast<size_t>(index) * SizeOf(dtype_);
    float f32 = 0;
    BF16 bf16{};
    int32_t i32 = 0;
    switch (dtype_) {
      case DType::kF32:
        std::memcpy(&f32, at, 4);
        return f32;
      case DType::kBF16:
        std::memcpy(&bf16, at, 2);
        return ToFloat(bf16);
      case DType::kI32:
        std::memcpy(&i32, at, 4);
        return static_cast<float>(i32);
    }
    return 0;
  }

 private:
  DType dtype_;
  int64_t count_;
  std::vector<char> bytes_;
};

// Element `index` on `rank`: -20 to 20, so that sums of a few ranks are exact in bf16 too.
inline float Pattern(int rank, int64_t index) {
  return static_cast<float>((index * 7 + rank * 13) % 41 - 20);
}

inline Tensor Patterned(DType dtype, int rank, int64_t count) {
  Tensor tensor(dtype, count);
  for (int64_t i = 0; i < count; ++i) tensor.Set(i, Pattern(rank, i));
  return tensor;
}

// One message per tensor, not one per element.
template <class Expected>
void ExpectElements(const Tensor& tensor, int64_t begin, int64_t count, Expected expected) {
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(tensor.Get(begin + i), expected(i)) << "element " << begin + i;
  }
}

}  // namespace stretto::testing

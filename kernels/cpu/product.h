// SPDX-License-Identifier: Apache-2.0
#pragma once
// oneDNN's matrix product and conversion with their memory objects, created once and run often.

#include <array>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/dtype.h"

namespace stretto::cpu {

inline dnnl::memory::data_type TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return dnnl::memory::data_type::f32;
    case DType::kBF16:
      return dnnl::memory::data_type::bf16;
    case DType::kI32:
      return dnnl::memory::data_type::s32;
  }
  return dnnl::memory::data_type::undef;
}

// Describes a matrix [rows, columns], stored row by row or, if transposed, column by column.
dnnl::memory::desc Dense(int64_t rows, int64_t columns, DType dtype, bool transposed = false);

// y = x * w (+ bias), or y += x * w. Operands are set before each run.
class Product {
 public:
  Product(const dnnl::engine& engine, const dnnl::memory::desc& x, const dnnl::memory::desc& w,
          const dnnl::memory::desc* bias, const dnnl::memory::desc& y, bool accumulate);

  void SetWeight(const void* w, const void* bias);
  void Run(const dnnl::stream& stream, const void* x, void* y);

  dnnl::memory::desc weight_desc() const { return descriptor_.weights_desc(); }

 private:
  dnnl::matmul::primitive_desc descriptor_;
  dnnl::matmul primitive_;
  dnnl::memory x_, w_, bias_, y_, scratchpad_;
  size_t scratchpad_bytes_;
  std::array<dnnl_exec_arg_t, 5> arguments_;
  int argument_count_;
};

// Copies a matrix into another layout or type.
class Conversion {
 public:
  Conversion(const dnnl::engine& engine, const dnnl::memory::desc& from,
             const dnnl::memory::desc& to);

  void Run(const dnnl::stream& stream, const void* from, void* to);
  size_t bytes() const { return bytes_; }

 private:
  dnnl::reorder primitive_;
  dnnl::memory from_, to_;
  size_t bytes_;
  std::array<dnnl_exec_arg_t, 2> arguments_;
};

}  // namespace stretto::cpu

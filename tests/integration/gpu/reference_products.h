// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix products as their definition says, on streams of the emulated device.

#include <cuda_runtime.h>

#include <functional>
#include <utility>

#include "kernels/cuda/cuda_ops.h"
#include "proto/base/check.h"

namespace stretto {

// f32 alone.
class ReferenceProducts final : public MatrixProducts {
 public:
  // `ready`: whether the device computes the next product now; empty: at once.
  explicit ReferenceProducts(void* stream, std::function<bool()> ready = {})
      : stream_(static_cast<cudaStream_t>(stream)), ready_(std::move(ready)) {}

  // y[n, m] = x[n, k] w[m, k]^T + bias
  void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) override {
    const int64_t rows = x.rows(), k = w.columns(), m = w.rows();
    Do([=] {
      for (int64_t n = 0; n < rows; ++n) {
        for (int64_t i = 0; i < m; ++i) {
          float sum = bias.data == nullptr ? 0 : bias.as<float>()[i];
          for (int64_t j = 0; j < k; ++j)
            sum += x.as<float>()[n * k + j] * w.as<float>()[i * k + j];
          y.as<float>()[n * m + i] = sum;
        }
      }
    });
  }
  // dx[n, c] = dy[n, m] w[m, first_column + c]
  void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) override {
    const int64_t rows = dy.rows(), m = w.rows(), k = w.columns(), columns = dx.columns();
    Do([=] {
      for (int64_t n = 0; n < rows; ++n) {
        for (int64_t c = 0; c < columns; ++c) {
          float sum = 0;
          for (int64_t i = 0; i < m; ++i)
            sum += dy.as<float>()[n * m + i] * w.as<float>()[i * k + first_column + c];
          dx.as<float>()[n * columns + c] = sum;
        }
      }
    });
  }
  // dw[m, k] += dy[n, m]^T x[n, k]
  void GemmWgrad(TensorView dy, TensorView x, TensorView dw) override {
    const int64_t rows = dy.rows(), m = dw.rows(), k = dw.columns();
    Do([=] {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          float sum = dw.as<float>()[i * k + j];
          for (int64_t n = 0; n < rows; ++n)
            sum += dy.as<float>()[n * m + i] * x.as<float>()[n * k + j];
          dw.as<float>()[i * k + j] = sum;
        }
      }
    });
  }
  void LimitSms(int) override {}

 private:
  void Do(std::function<void()> product) {
    STRETTO_CHECK(cuda_emulator::Enqueue(stream_, std::move(product), ready_) == cudaSuccess);
  }

  const cudaStream_t stream_;
  const std::function<bool()> ready_;
};

}  // namespace stretto

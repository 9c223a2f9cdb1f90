// SPDX-License-Identifier: Apache-2.0
#pragma once
// CUDA operations whose every call waits for the device, and fails the test with the operation's
// name when the device or a library refused it.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>

#include "kernels/cuda/cuda_ops.h"

namespace stretto {

class SettledOps final : public Ops {
 public:
  explicit SettledOps(std::unique_ptr<CudaOps> ops) : ops_(std::move(ops)) {}

  void WeightsChanged() override { ops_->WeightsChanged(); }

#define STRETTO_OP(operation, parameters, arguments) \
  void operation parameters override {               \
    ops_->operation arguments;                       \
    Settle(#operation);                              \
  }
#include "kernels/ops.inc"
  STRETTO_OP(BiasResidualLayerNorm,
             (TensorView r, TensorView bias, TensorView x, Dropout dropout, TensorView keys,
              TensorView sum, TensorView w, TensorView b, float epsilon, TensorView y,
              TensorView stats),
             (r, bias, x, dropout, keys, sum, w, b, epsilon, y, stats))
  STRETTO_OP(BiasResidualRmsNorm,
             (TensorView r, TensorView bias, TensorView x, Dropout dropout, TensorView keys,
              TensorView sum, TensorView w, float epsilon, TensorView y, TensorView rstd),
             (r, bias, x, dropout, keys, sum, w, epsilon, y, rstd))
  STRETTO_OP(LayerNormGrads,
             (TensorView dy, TensorView x, TensorView w, TensorView stats, TensorView residual,
              TensorView dx, TensorView dw, TensorView db),
             (dy, x, w, stats, residual, dx, dw, db))
  STRETTO_OP(RmsNormGrads,
             (TensorView dy, TensorView x, TensorView w, TensorView rstd, TensorView residual,
              TensorView dx, TensorView dw),
             (dy, x, w, rstd, residual, dx, dw))
#undef STRETTO_OP

 private:
  void Settle(const char* operation) {
    const cudaError_t error = cudaDeviceSynchronize();
    EXPECT_EQ(error, cudaSuccess) << operation << ": " << cudaGetErrorString(error);
    EXPECT_STREQ(ops_->error(), "") << operation;
  }

  const std::unique_ptr<CudaOps> ops_;
};

}  // namespace stretto

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

#define STRETTO_SETTLED(operation, parameters, arguments) \
  void operation parameters override {                    \
    ops_->operation arguments;                            \
    Settle(#operation);                                   \
  }
  using T = TensorView;
  STRETTO_SETTLED(Gemm, (T x, T w, T bias, T y), (x, w, bias, y))
  STRETTO_SETTLED(GemmDgrad, (T dy, T w, int64_t first, T dx), (dy, w, first, dx))
  STRETTO_SETTLED(GemmWgrad, (T dy, T x, T dw), (dy, x, dw))
  STRETTO_SETTLED(BiasGrad, (T dy, T db), (dy, db))
  STRETTO_SETTLED(Embed, (T tokens, T table, VocabShard v, T y), (tokens, table, v, y))
  STRETTO_SETTLED(EmbedGrad, (T tokens, T dx, VocabShard v, T dtable), (tokens, dx, v, dtable))
  STRETTO_SETTLED(AddPosition, (T position, int64_t first, T x), (position, first, x))
  STRETTO_SETTLED(PositionGrad, (T dx, int64_t first, T dposition), (dx, first, dposition))
  STRETTO_SETTLED(LayerNorm, (T x, T w, T b, float epsilon, T y, T stats),
                  (x, w, b, epsilon, y, stats))
  STRETTO_SETTLED(LayerNormDgrad, (T dy, T x, T w, T stats, T residual, T dx),
                  (dy, x, w, stats, residual, dx))
  STRETTO_SETTLED(LayerNormWgrad, (T dy, T x, T stats, T dw, T db), (dy, x, stats, dw, db))
  STRETTO_SETTLED(RmsNorm, (T x, T w, float epsilon, T y, T rstd), (x, w, epsilon, y, rstd))
  STRETTO_SETTLED(RmsNormDgrad, (T dy, T x, T w, T rstd, T residual, T dx),
                  (dy, x, w, rstd, residual, dx))
  STRETTO_SETTLED(RmsNormWgrad, (T dy, T x, T rstd, T dw), (dy, x, rstd, dw))
  STRETTO_SETTLED(BiasResidual, (T r, T bias, T x, Dropout dropout, T keys, T y),
                  (r, bias, x, dropout, keys, y))
  STRETTO_SETTLED(BiasResidualLayerNorm,
                  (T r, T bias, T x, Dropout dropout, T keys, T sum, T w, T b, float epsilon, T y,
                   T stats),
                  (r, bias, x, dropout, keys, sum, w, b, epsilon, y, stats))
  STRETTO_SETTLED(BiasResidualRmsNorm,
                  (T r, T bias, T x, Dropout dropout, T keys, T sum, T w, float epsilon, T y,
                   T rstd),
                  (r, bias, x, dropout, keys, sum, w, epsilon, y, rstd))
  STRETTO_SETTLED(DropElements, (T x, Dropout dropout, T keys, T y), (x, dropout, keys, y))
  STRETTO_SETTLED(Gelu, (T u, T a), (u, a))
  STRETTO_SETTLED(GeluGrad, (T u, T da, T du), (u, da, du))
  STRETTO_SETTLED(SwiGlu, (T u, T a), (u, a))
  STRETTO_SETTLED(SwiGluGrad, (T u, T da, T du), (u, da, du))
  STRETTO_SETTLED(Rotary, (AttentionShape shape, const RotarySpeed& speed, bool inverse, T qkv),
                  (shape, speed, inverse, qkv))
  STRETTO_SETTLED(Attention,
                  (AttentionShape shape, Dropout dropout, T keys, T qkv, T context, T lse,
                   T scratch),
                  (shape, dropout, keys, qkv, context, lse, scratch))
  STRETTO_SETTLED(AttentionGrad,
                  (AttentionShape shape, Dropout dropout, T keys, T dcontext, T qkv, T context,
                   T lse, T dqkv, T scratch),
                  (shape, dropout, keys, dcontext, qkv, context, lse, dqkv, scratch))
  STRETTO_SETTLED(CrossEntropyMax, (T logits, VocabShard v, T max), (logits, v, max))
  STRETTO_SETTLED(CrossEntropySum, (T logits, T max, T targets, VocabShard v, T sums),
                  (logits, max, targets, v, sums))
  STRETTO_SETTLED(CrossEntropyLoss, (T sums, T loss), (sums, loss))
  STRETTO_SETTLED(CrossEntropyGrad, (T max, T sums, T targets, T scalars, VocabShard v, T logits),
                  (max, sums, targets, scalars, v, logits))
  STRETTO_SETTLED(Zero, (T x), (x))
  STRETTO_SETTLED(SumSquares, (T x, T out), (x, out))
  STRETTO_SETTLED(Sum, (T parts, T out), (parts, out))
  STRETTO_SETTLED(Clip, (T sum_squares, T scalars, T state), (sum_squares, scalars, state))
  STRETTO_SETTLED(AdamW, (T grad, T state, T scalars, bool decay, T master, T m, T v, T weight),
                  (grad, state, scalars, decay, master, m, v, weight))
#undef STRETTO_SETTLED

 private:
  void Settle(const char* operation) {
    const cudaError_t error = cudaDeviceSynchronize();
    EXPECT_EQ(error, cudaSuccess) << operation << ": " << cudaGetErrorString(error);
    EXPECT_STREQ(ops_->error(), "") << operation;
  }

  const std::unique_ptr<CudaOps> ops_;
};

}  // namespace stretto

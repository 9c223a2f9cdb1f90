#pragma once
// The class behind MakeCpuOps; one family of operations per source file. These files are compiled
// once for the baseline and once for AVX-512 (CMakeLists.txt), each in a namespace of its own.

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/packed_weights.h"

#ifndef STRETTO_CPU_OPS
#define STRETTO_CPU_OPS baseline
#endif

namespace stretto::cpu::STRETTO_CPU_OPS {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(bool bf16_matmul) : bf16_matmul_(bf16_matmul) {}

  // gemm.cc
  void WeightsChanged() override;
  void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) override;
  void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) override;
  void GemmWgrad(TensorView dy, TensorView x, TensorView dw) override;
  void BiasGrad(TensorView dy, TensorView db) override;

  // embedding.cc
  void Embed(TensorView tokens, TensorView table, VocabShard vocab, TensorView y) override;
  void EmbedGrad(TensorView tokens, TensorView dx, VocabShard vocab, TensorView dtable) override;
  void AddPosition(TensorView position, int64_t first_token, TensorView x) override;
  void PositionGrad(TensorView dx, int64_t first_token, TensorView dposition) override;

  // layer_norm.cc
  void LayerNorm(TensorView x, TensorView w, TensorView b, float epsilon, TensorView y,
                 TensorView stats) override;
  void LayerNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView stats,
                      TensorView residual, TensorView dx) override;
  void LayerNormWgrad(TensorView dy, TensorView x, TensorView stats, TensorView dw,
                      TensorView db) override;

  // rms_norm.cc
  void RmsNorm(TensorView x, TensorView w, float epsilon, TensorView y, TensorView rstd) override;
  void RmsNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView rstd, TensorView residual,
                    TensorView dx) override;
  void RmsNormWgrad(TensorView dy, TensorView x, TensorView rstd, TensorView dw) override;

  // dropout.cc
  void BiasResidual(TensorView r, TensorView bias, TensorView x, Dropout dropout, TensorView keys,
                    TensorView y) override;
  void DropElements(TensorView x, Dropout dropout, TensorView keys, TensorView y) override;

  // activation.cc
  void Gelu(TensorView u, TensorView a) override;
  void GeluGrad(TensorView u, TensorView da, TensorView du) override;
  void SwiGlu(TensorView u, TensorView a) override;
  void SwiGluGrad(TensorView u, TensorView da, TensorView du) override;

  // rotary.cc
  void Rotary(AttentionShape shape, const RotarySpeed& speed, bool inverse,
              TensorView qkv) override;

  // attention.cc
  void Attention(AttentionShape shape, Dropout dropout, TensorView keys, TensorView qkv,
                 TensorView context, TensorView lse, TensorView scratch) override;
  void AttentionGrad(AttentionShape shape, Dropout dropout, TensorView keys, TensorView dcontext,
                     TensorView qkv, TensorView context, TensorView lse, TensorView dqkv,
                     TensorView scratch) override;

  // cross_entropy.cc
  void CrossEntropyMax(TensorView logits, VocabShard vocab, TensorView max) override;
  void CrossEntropySum(TensorView logits, TensorView max, TensorView targets, VocabShard vocab,
                       TensorView sums) override;
  void CrossEntropyLoss(TensorView sums, TensorView loss) override;
  void CrossEntropyGrad(TensorView max, TensorView sums, TensorView targets, TensorView scalars,
                        VocabShard vocab, TensorView logits) override;

  // optimizer.cc
  void Zero(TensorView x) override;
  void SumSquares(TensorView x, TensorView out) override;
  void Sum(TensorView parts, TensorView out) override;
  void Clip(TensorView sum_squares, TensorView scalars, TensorView state) override;
  void AdamW(TensorView grad, TensorView state, TensorView scalars, bool decay, TensorView master,
             TensorView m, TensorView v, TensorView weight) override;

 private:
  DType ProductType(DType dtype) const { return bf16_matmul_ ? dtype : DType::kF32; }

  // bf16 products run on bf16; otherwise operands are converted and multiplied in f32.
  const bool bf16_matmul_;
  PackedWeights packed_;
};

}  // namespace stretto::cpu::STRETTO_CPU_OPS

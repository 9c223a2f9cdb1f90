#pragma once
// The class behind MakeCpuOps; one family of operations per source file.

#include "kernels/cpu/cpu_ops.h"

namespace stretto::cpu {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(bool bf16_matmul) : bf16_matmul_(bf16_matmul) {}

  // gemm.cc
  void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) override;
  void GemmDgrad(TensorView dy, TensorView w, TensorView dx) override;
  void GemmWgrad(TensorView dy, TensorView x, TensorView dw) override;
  void BiasGrad(TensorView dy, TensorView db) override;

  // embedding.cc
  void Embed(TensorView tokens, TensorView table, VocabShard vocab, TensorView y) override;
  void EmbedGrad(TensorView tokens, TensorView dx, VocabShard vocab, TensorView dtable) override;
  void AddPosition(TensorView position, TensorView x) override;
  void PositionGrad(TensorView dx, TensorView dposition) override;

  // layer_norm.cc
  void LayerNorm(TensorView x, TensorView w, TensorView b, TensorView y, TensorView stats) override;
  void LayerNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView stats,
                      TensorView residual, TensorView dx) override;
  void LayerNormWgrad(TensorView dy, TensorView x, TensorView stats, TensorView dw,
                      TensorView db) override;

  // activation.cc
  void BiasResidual(TensorView r, TensorView bias, TensorView x, TensorView y) override;
  void Gelu(TensorView u, TensorView a) override;
  void GeluGrad(TensorView u, TensorView da, TensorView du) override;

  // attention.cc
  void Attention(AttentionShape shape, TensorView qkv, TensorView context, TensorView lse,
                 TensorView scratch) override;
  void AttentionGrad(AttentionShape shape, TensorView dcontext, TensorView qkv, TensorView context,
                     TensorView lse, TensorView dqkv, TensorView scratch) override;

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
  // bf16 products run on bf16; otherwise operands are converted and multiplied in f32.
  const bool bf16_matmul_;
};

}  // namespace stretto::cpu

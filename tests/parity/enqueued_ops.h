#pragma once
// The CPU's operations as work on streams of the emulated device.

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cuda/cuda_ops.h"
#include "worker/engine/exec/backend_cuda/cuda_executor.h"

namespace stretto::parity {

// So an executor of streams is tested apart from the kernels, and its results are the CPU's to the
// bit.
class EnqueuedOps final : public CudaOps {
 public:
  explicit EnqueuedOps(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  void LimitSms(int sms) override { limits.insert(sms); }
  const char* error() const override { return error_.c_str(); }

  void WeightsChanged() override {
    Do([=](Ops& ops) { ops.WeightsChanged(); });
  }
  void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) override {
    Do([=](Ops& ops) { ops.Gemm(x, w, bias, y); });
  }
  void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) override {
    Do([=](Ops& ops) { ops.GemmDgrad(dy, w, first_column, dx); });
  }
  void GemmWgrad(TensorView dy, TensorView x, TensorView dw) override {
    Do([=](Ops& ops) { ops.GemmWgrad(dy, x, dw); });
  }
  void BiasGrad(TensorView dy, TensorView db) override {
    Do([=](Ops& ops) { ops.BiasGrad(dy, db); });
  }
  void Embed(TensorView tokens, TensorView table, VocabShard vocab, TensorView y) override {
    Do([=](Ops& ops) { ops.Embed(tokens, table, vocab, y); });
  }
  void EmbedGrad(TensorView tokens, TensorView dx, VocabShard vocab, TensorView dtable) override {
    Do([=](Ops& ops) { ops.EmbedGrad(tokens, dx, vocab, dtable); });
  }
  void AddPosition(TensorView position, int64_t first_token, TensorView x) override {
    Do([=](Ops& ops) { ops.AddPosition(position, first_token, x); });
  }
  void PositionGrad(TensorView dx, int64_t first_token, TensorView dposition) override {
    Do([=](Ops& ops) { ops.PositionGrad(dx, first_token, dposition); });
  }
  void LayerNorm(TensorView x, TensorView w, TensorView b, float epsilon, TensorView y,
                 TensorView stats) override {
    Do([=](Ops& ops) { ops.LayerNorm(x, w, b, epsilon, y, stats); });
  }
  void LayerNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView stats,
                      TensorView residual, TensorView dx) override {
    Do([=](Ops& ops) { ops.LayerNormDgrad(dy, x, w, stats, residual, dx); });
  }
  void LayerNormWgrad(TensorView dy, TensorView x, TensorView stats, TensorView dw,
                      TensorView db) override {
    Do([=](Ops& ops) { ops.LayerNormWgrad(dy, x, stats, dw, db); });
  }
  void RmsNorm(TensorView x, TensorView w, float epsilon, TensorView y, TensorView rstd) override {
    Do([=](Ops& ops) { ops.RmsNorm(x, w, epsilon, y, rstd); });
  }
  void RmsNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView rstd, TensorView residual,
                    TensorView dx) override {
    Do([=](Ops& ops) { ops.RmsNormDgrad(dy, x, w, rstd, residual, dx); });
  }
  void RmsNormWgrad(TensorView dy, TensorView x, TensorView rstd, TensorView dw) override {
    Do([=](Ops& ops) { ops.RmsNormWgrad(dy, x, rstd, dw); });
  }
  void BiasResidual(TensorView r, TensorView bias, TensorView x, Dropout dropout, TensorView keys,
                    TensorView y) override {
    Do([=](Ops& ops) { ops.BiasResidual(r, bias, x, dropout, keys, y); });
  }
  void DropElements(TensorView x, Dropout dropout, TensorView keys, TensorView y) override {
    Do([=](Ops& ops) { ops.DropElements(x, dropout, keys, y); });
  }
  void Gelu(TensorView u, TensorView a) override {
    Do([=](Ops& ops) { ops.Gelu(u, a); });
  }
  void GeluGrad(TensorView u, TensorView da, TensorView du) override {
    Do([=](Ops& ops) { ops.GeluGrad(u, da, du); });
  }
  void SwiGlu(TensorView u, TensorView a) override {
    Do([=](Ops& ops) { ops.SwiGlu(u, a); });
  }
  void SwiGluGrad(TensorView u, TensorView da, TensorView du) override {
    Do([=](Ops& ops) { ops.SwiGluGrad(u, da, du); });
  }
  void Rotary(AttentionShape shape, const RotarySpeed& speed, bool inverse,
              TensorView qkv) override {
    Do([=](Ops& ops) { ops.Rotary(shape, speed, inverse, qkv); });
  }
  void Attention(AttentionShape shape, Dropout dropout, TensorView keys, TensorView qkv,
                 TensorView context, TensorView lse, TensorView scratch) override {
    Do([=](Ops& ops) { ops.Attention(shape, dropout, keys, qkv, context, lse, scratch); });
  }
  void AttentionGrad(AttentionShape shape, Dropout dropout, TensorView keys, TensorView dcontext,
                     TensorView qkv, TensorView context, TensorView lse, TensorView dqkv,
                     TensorView scratch) override {
    Do([=](Ops& ops) {
      ops.AttentionGrad(shape, dropout, keys, dcontext, qkv, context, lse, dqkv, scratch);
    });
  }
  void CrossEntropyMax(TensorView logits, VocabShard vocab, TensorView max) override {
    Do([=](Ops& ops) { ops.CrossEntropyMax(logits, vocab, max); });
  }
  void CrossEntropySum(TensorView logits, TensorView max, TensorView targets, VocabShard vocab,
                       TensorView sums) override {
    Do([=](Ops& ops) { ops.CrossEntropySum(logits, max, targets, vocab, sums); });
  }
  void CrossEntropyLoss(TensorView sums, TensorView loss) override {
    Do([=](Ops& ops) { ops.CrossEntropyLoss(sums, loss); });
  }
  void CrossEntropyGrad(TensorView max, TensorView sums, TensorView targets, TensorView scalars,
                        VocabShard vocab, TensorView logits) override {
    Do([=](Ops& ops) { ops.CrossEntropyGrad(max, sums, targets, scalars, vocab, logits); });
  }
  void Zero(TensorView x) override {
    Do([=](Ops& ops) { ops.Zero(x); });
  }
  void SumSquares(TensorView x, TensorView out) override {
    Do([=](Ops& ops) { ops.SumSquares(x, out); });
  }
  void Sum(TensorView parts, TensorView out) override {
    Do([=](Ops& ops) { ops.Sum(parts, out); });
  }
  void Clip(TensorView sum_squares, TensorView scalars, TensorView state) override {
    Do([=](Ops& ops) { ops.Clip(sum_squares, scalars, state); });
  }
  void AdamW(TensorView grad, TensorView state, TensorView scalars, bool decay, TensorView master,
             TensorView m, TensorView v, TensorView weight) override {
    Do([=](Ops& ops) { ops.AdamW(grad, state, scalars, decay, master, m, v, weight); });
  }

  void BiasResidualLayerNorm(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                             TensorView keys, TensorView sum, TensorView w, TensorView b,
                             float epsilon, TensorView y, TensorView stats) override {
    ++pairs;
    CudaOps::BiasResidualLayerNorm(r, bias, x, dropout, keys, sum, w, b, epsilon, y, stats);
  }
  inline static int pairs = 0;              // calls of the above
  inline static std::set<int> limits = {};  // that SMs were held to

 private:
  void Do(std::function<void(Ops&)> call) {
    const cudaError_t status =
        cuda_emulator::Enqueue(stream_, [ops = ops_, call = std::move(call)] { call(*ops); });
    if (status != cudaSuccess && error_.empty()) error_ = cudaGetErrorName(status);
  }

  const cudaStream_t stream_;
  const std::shared_ptr<Ops> ops_ = MakeCpuOps();
  std::string error_;
};

// For CudaExecutorOptions.
inline absl::StatusOr<StreamOps> MakeEnqueuedOps(void* stream) {
  return StreamOps{
      .workspace = nullptr, .products = nullptr, .ops = std::make_unique<EnqueuedOps>(stream)};
}

}  // namespace stretto::parity

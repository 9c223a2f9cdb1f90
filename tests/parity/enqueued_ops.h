// SPDX-License-Identifier: Apache-2.0
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
#define STRETTO_OP(name, parameters, arguments) \
  void name parameters override {               \
    Do([=](Ops& ops) { ops.name arguments; });  \
  }
#include "kernels/ops.inc"
#undef STRETTO_OP

  void BiasResidualLayerNorm(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                             TensorView keys, TensorView sum, TensorView w, TensorView b,
                             float epsilon, TensorView y, TensorView stats) override {
    ++pairs;
    CudaOps::BiasResidualLayerNorm(r, bias, x, dropout, keys, sum, w, b, epsilon, y, stats);
  }
  void LayerNormGrads(TensorView dy, TensorView x, TensorView w, TensorView stats,
                      TensorView residual, TensorView dx, TensorView dw, TensorView db) override {
    ++gradient_pairs;
    CudaOps::LayerNormGrads(dy, x, w, stats, residual, dx, dw, db);
  }
  inline static int pairs = 0, gradient_pairs = 0;  // calls of the two above
  inline static std::set<int> limits = {};          // that SMs were held to

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

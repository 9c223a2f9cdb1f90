// SPDX-License-Identifier: Apache-2.0
#pragma once
// The class that MakeCudaOps returns. Each file implements one operation and its gradients.

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "kernels/bf16.h"
#include "kernels/cuda/cuda_ops.h"

namespace stretto::cuda {

template <class T>
struct AttentionCall;
struct Gradients;
struct RowStatistics;

// Calls `body` with a value of the element type.
template <class Body>
void WithType(DType dtype, Body body) {
  STRETTO_CHECK(dtype != DType::kI32);
  if (dtype == DType::kBF16) {
    body(BF16{});
  } else {
    body(float{});
  }
}

// The launch shape of a kernel: blocks of `threads`, at most `per_sm` of them on each SM; 0: as
// many as fit, which leave room for others.
struct Spread {
  int threads = 256;
  int per_sm = 0;
  size_t shared_bytes = 0;
};

class CudaOpsImpl final : public CudaOps {
 public:
  explicit CudaOpsImpl(const CudaOpsOptions& options) : options_(options) {}

  void LimitSms(int sms) override;
  const char* error() const override {
    if (!error_.empty() || options_.products == nullptr) return error_.c_str();
    return options_.products->error();
  }

#define STRETTO_OP(name, parameters, arguments) void name parameters override;
#include "kernels/ops.inc"
#undef STRETTO_OP

  // residual_norm.cu
  void BiasResidualLayerNorm(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                             TensorView keys, TensorView sum, TensorView w, TensorView b,
                             float epsilon, TensorView y, TensorView stats) override;
  void BiasResidualRmsNorm(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                           TensorView keys, TensorView sum, TensorView w, float epsilon,
                           TensorView y, TensorView rstd) override;
  // layer_norm.cu, rms_norm.cu
  void LayerNormGrads(TensorView dy, TensorView x, TensorView w, TensorView stats,
                      TensorView residual, TensorView dx, TensorView dw, TensorView db) override;
  void RmsNormGrads(TensorView dy, TensorView x, TensorView w, TensorView rstd, TensorView residual,
                    TensorView dx, TensorView dw) override;

 private:
  bool AsksLibrary(const Dropout& dropout, const TensorView& documents) const {
    return options_.attention != nullptr && !dropout.on() && documents.data == nullptr;
  }
  // attention_forward.cu, attention_query_grad.cu, attention_key_grad.cu: on tensor cores. Return
  // false when there are no tiles for this head_dim.
  bool TiledAttention(const AttentionCall<BF16>& call, BF16* context, float* lse);
  bool TiledQueryGrad(const AttentionCall<BF16>& call, const Gradients& all);
  bool TiledKeyGrad(const AttentionCall<BF16>& call, const Gradients& all);
  // attention_plain.cu
  template <class T>
  void PlainAttention(const AttentionCall<T>& call, T* context, float* lse);
  template <class T>
  void AttentionStatistics(const AttentionCall<T>& call, const T* dcontext, const T* context,
                           const float* lse, RowStatistics* statistics);
  template <class T>
  void PlainAttentionGrad(const AttentionCall<T>& call, const T* dcontext,
                          const RowStatistics* statistics, T* dqkv);

  // embedding.cu. Returns the keys of all rows, ascending, in the workspace.
  const uint64_t* SortedRows(TensorView tokens);

  cudaStream_t stream() const { return static_cast<cudaStream_t>(options_.stream); }

  // column_sums.h. out += sums over rows; kSums outputs of `columns` f32 each.
  template <class Terms>
  void SumColumns(const char* name, const Terms& terms, int64_t rows, int64_t columns,
                  std::array<float*, Terms::kSums> out);
  // The second half of it: adds the sums of the parts in the workspace.
  template <size_t kSums>
  void AddParts(const char* name, int64_t parts, int64_t columns, std::array<float*, kSums> out);
  // norm.h. Both gradients; false where rows are too long for it, and nothing is done.
  template <bool kCentre, size_t kSums>
  bool NormGrads(const char* name, TensorView dy, TensorView x, TensorView w, TensorView stats,
                 TensorView residual, TensorView dx, std::array<float*, kSums> out);
  template <bool kCentre, size_t kSums>
  void NormWgrad(const char* name, TensorView dy, TensorView x, TensorView stats,
                 std::array<float*, kSums> out);

  // Launches enough blocks for `blocks` pieces of work, but at most MostBlocks: kernels walk over
  // their work in steps of the grid, so no bit depends on it.
  template <class... P, class... A>
  void Walk(const char* name, int64_t blocks, const Spread& spread, void (*kernel)(P...),
            A&&... args) {
    const int64_t grid = std::clamp<int64_t>(blocks, 1, MostBlocks(name, spread, kernel));
    Launch(name, dim3(static_cast<unsigned>(grid)), spread, kernel, std::forward<A>(args)...);
  }

  template <class... P, class... A>
  void Launch(const char* name, dim3 grid, const Spread& spread, void (*kernel)(P...),
              A&&... args) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(spread.threads));
    config.dynamicSmemBytes = spread.shared_bytes;
    config.stream = stream();
    AllowShared(name, spread, kernel);
    Keep(name, cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...));
  }

  template <class... P>
  void AllowShared(const char* name, const Spread& spread, void (*kernel)(P...)) {
    if (spread.shared_bytes <= 48 * 1024) return;
    Keep(name, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(spread.shared_bytes)));
  }

  // As many blocks as may be resident. Under a limit on SMs, kernels that fill them have one block
  // per SM that they may use: the device spreads blocks over all SMs, and with several per SM none
  // would be free. The others, bound by memory, keep all SMs and have short blocks instead, so that
  // a collective, which has the higher priority, soon finds room (docs/design/0056).
  template <class... P>
  int64_t MostBlocks(const char* name, const Spread& spread, void (*kernel)(P...)) {
    constexpr int64_t kShort = 8;
    if (spread.per_sm > 0) return FillingBlocks(spread.per_sm);
    return int64_t{options_.sm_count} * PerSm(name, spread, kernel) * (sm_limit_ > 0 ? kShort : 1);
  }
  // Returns MostBlocks of a kernel that fills an SM with `per_sm` blocks.
  int64_t FillingBlocks(int per_sm) const {
    return sm_limit_ > 0 ? sm_limit_ : int64_t{options_.sm_count} * per_sm;
  }

  // Returns how many blocks of the kernel fit on one SM; the runtime is asked once per kernel.
  template <class... P>
  int PerSm(const char* name, const Spread& spread, void (*kernel)(P...)) {
    const auto key =
        std::tuple(reinterpret_cast<uintptr_t>(kernel), spread.threads, spread.shared_bytes);
    const auto [known, is_new] = per_sm_.try_emplace(key, 1);
    if (is_new) {
      AllowShared(name, spread, kernel);
      int blocks = 0;
      Keep(name, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, spread.threads,
                                                               spread.shared_bytes));
      known->second = std::max(blocks, 1);
    }
    return known->second;
  }

  void Keep(const char* name, cudaError_t status);

  const CudaOpsOptions options_;
  int sm_limit_ = 0;
  std::map<std::tuple<uintptr_t, int, size_t>, int> per_sm_;  // by kernel, threads, shared bytes
  std::string error_;
};

}  // namespace stretto::cuda

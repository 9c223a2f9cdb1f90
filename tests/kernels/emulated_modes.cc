// SPDX-License-Identifier: Apache-2.0

// The CUDA kernels on the CPU; matrix products are the CPU's, the library for them being no kernel
// of ours.
#include <cuda_runtime.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

// The CPU's keep what they derive from a weight; these read it anew in each call.
class CpuProducts final : public MatrixProducts {
 public:
  void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) override {
    ops_->WeightsChanged();
    ops_->Gemm(x, w, bias, y);
  }
  void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) override {
    ops_->WeightsChanged();
    ops_->GemmDgrad(dy, w, first_column, dx);
  }
  void GemmWgrad(TensorView dy, TensorView x, TensorView dw) override {
    ops_->GemmWgrad(dy, x, dw);
  }
  void LimitSms(int) override {}

 private:
  const std::unique_ptr<Ops> ops_ = MakeCpuOps();
};

// The threads of a block run in an order drawn from the seed; 0: ascending.
std::unique_ptr<Ops> Make(uint64_t seed) {
  cuda_emulator::Seed(seed);
  static CpuProducts products;
  static std::vector<std::byte> workspace(kCudaWorkspaceBytes + 256);
  const auto at = (reinterpret_cast<uintptr_t>(workspace.data()) + 255) & ~uintptr_t{255};
  return MakeCudaOps(
      {.sm_count = 4, .workspace = reinterpret_cast<void*>(at), .products = &products});
}

void LimitSms(Ops& ops, int sms) { static_cast<CudaOps&>(ops).LimitSms(sms); }

}  // namespace

std::vector<Mode> AllModes() {
  const auto with = [](uint64_t seed) { return [=] { return Make(seed); }; };
  return {{"f32", DType::kF32, with(0), false, LimitSms},
          {"bf16", DType::kBF16, with(0), false, LimitSms},
          {"bf16_shuffled", DType::kBF16, with(1), false, LimitSms}};
}

}  // namespace stretto

// The CUDA kernels on the CPU; matrix products are the CPU's, the library for them being no kernel
// of ours.
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cuda/cuda_ops.h"
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

class CpuProducts final : public MatrixProducts {
 public:
  void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) override {
    ops_->Gemm(x, w, bias, y);
  }
  void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) override {
    ops_->GemmDgrad(dy, w, first_column, dx);
  }
  void GemmWgrad(TensorView dy, TensorView x, TensorView dw) override {
    ops_->GemmWgrad(dy, x, dw);
  }
  void LimitSms(int) override {}

 private:
  const std::unique_ptr<Ops> ops_ = MakeCpuOps();
};

std::unique_ptr<Ops> Make() {
  static CpuProducts products;
  static std::vector<std::byte> workspace(kCudaWorkspaceBytes + 256);
  const auto at = (reinterpret_cast<uintptr_t>(workspace.data()) + 255) & ~uintptr_t{255};
  return MakeCudaOps({.sm_count = 4,
                      .workspace = reinterpret_cast<void*>(at),
                      .products = &products});
}

}  // namespace

std::vector<Mode> AllModes() {
  return {{"f32", DType::kF32, Make}, {"bf16", DType::kBF16, Make}};
}

}  // namespace stretto

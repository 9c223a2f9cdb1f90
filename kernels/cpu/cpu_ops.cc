#include "kernels/cpu/cpu_ops.h"

#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/matmul.h"

namespace stretto {

std::unique_ptr<Ops> MakeCpuOps(CpuOpsOptions options) {
  return std::make_unique<cpu::CpuOps>(!options.force_f32_gemm && cpu::HasBF16Matmul());
}

}  // namespace stretto

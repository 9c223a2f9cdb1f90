// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_ops.h"

#include "kernels/cpu/matmul.h"

namespace stretto {

namespace cpu {
namespace baseline {
std::unique_ptr<Ops> Make(bool bf16_matmul);
}
namespace avx512 {
std::unique_ptr<Ops> Make(bool bf16_matmul);
}
}  // namespace cpu

std::unique_ptr<Ops> MakeCpuOps(CpuOpsOptions options) {
  const bool bf16_matmul = options.bf16_products == BF16Products::kNative ? cpu::HasBF16Matmul()
                           : options.bf16_products == BF16Products::kFastest
                               ? cpu::HasFastBF16Matmul()
                               : false;
#if STRETTO_CPU_AVX512
  if (cpu::HasAvx512()) return cpu::avx512::Make(bf16_matmul);
#endif
  return cpu::baseline::Make(bf16_matmul);
}

}  // namespace stretto

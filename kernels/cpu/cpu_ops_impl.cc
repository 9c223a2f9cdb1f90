// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_ops_impl.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

std::unique_ptr<Ops> Make(bool bf16_matmul) { return std::make_unique<CpuOps>(bf16_matmul); }

}  // namespace stretto::cpu::STRETTO_CPU_OPS

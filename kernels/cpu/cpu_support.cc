// SPDX-License-Identifier: Apache-2.0

// Compiled for plain x86-64 (see CMakeLists.txt), because it must run on the CPUs that it refuses.
#include "kernels/cpu/cpu_support.h"

#include "kernels/cpu/cpu_ops.h"

namespace stretto {

namespace cpu {

std::string MissingFeatures(const CpuFeatures& features) {
  std::string missing;
  if (!features.avx2) missing += " AVX2";
  if (!features.fma) missing += " FMA";
  if (!features.bmi) missing += " BMI1";
  if (!features.bmi2) missing += " BMI2";
  if (missing.empty()) return missing;
  return "this CPU lacks" + missing + "; the CPU kernels need x86-64-v3 (AVX2, FMA, BMI1, BMI2)";
}

}  // namespace cpu

bool CpuSupported(std::string* why) {
  __builtin_cpu_init();
  const std::string missing = cpu::MissingFeatures({
      .avx2 = __builtin_cpu_supports("avx2") != 0,
      .fma = __builtin_cpu_supports("fma") != 0,
      .bmi = __builtin_cpu_supports("bmi") != 0,
      .bmi2 = __builtin_cpu_supports("bmi2") != 0,
  });
  if (missing.empty()) return true;
  *why = missing;
  return false;
}

}  // namespace stretto

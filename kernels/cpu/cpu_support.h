// SPDX-License-Identifier: Apache-2.0
#pragma once
// The decision behind CpuSupported, apart from the CPU that runs it.

#include <string>

namespace stretto::cpu {

struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool bmi = false;
  bool bmi2 = false;
};

// Empty when all are there, else a sentence that names each missing one.
std::string MissingFeatures(const CpuFeatures& features);

}  // namespace stretto::cpu

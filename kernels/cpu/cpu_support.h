// SPDX-License-Identifier: Apache-2.0
#pragma once
// The decision behind CpuSupported, separate from the CPU on which it runs.

#include <string>

namespace stretto::cpu {

struct CpuFeatures {
  bool avx2 = false;
  bool fma = false;
  bool bmi = false;
  bool bmi2 = false;
};

// Returns an empty string when no feature is missing, otherwise a sentence that names each missing
// one.
std::string MissingFeatures(const CpuFeatures& features);

}  // namespace stretto::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Full tensors as vectors, and how parity tests compare them.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace stretto::parity {

using Floats = std::vector<float>;
using Tensors = std::vector<Floats>;  // full tensors in ParametersOf order

inline bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
inline bool SameBits(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!SameBits(a[i], b[i])) return false;
  }
  return true;
}

inline double Norm(const Floats& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}
inline double Norm(const Tensors& tensors) {
  double sum = 0;
  for (const Floats& tensor : tensors) sum += Norm(tensor) * Norm(tensor);
  return std::sqrt(sum);
}
inline double Distance(Floats a, const Floats& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return Norm(a);
}

// What a gradient tensor's error is compared with: its norm, or where that is next to nothing a
// share of all (DESIGN section 5).
inline double ScaleOf(const Floats& reference, const Tensors& all) {
  return std::max(Norm(reference), 1e-3 * Norm(all) / std::sqrt(static_cast<double>(all.size())));
}

}  // namespace stretto::parity

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Element types of tensors. Plain C++: usable from .cc and .cu.

#include <cstddef>
#include <cstdint>

namespace stretto {

enum class DType : uint8_t { kF32, kBF16, kI32 };

constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
  }
  return 0;
}

constexpr const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kI32:
      return "i32";
  }
  return "?";
}

}  // namespace stretto

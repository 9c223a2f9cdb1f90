// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/cpu/cpu_ops_impl.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

void CpuOps::CopyBox(TensorView x, const BoxCopy& box, TensorView y) {
  STRETTO_CHECK(x.dtype == y.dtype && x.rank == y.rank);
  const auto size = static_cast<int64_t>(SizeOf(x.dtype));
  const auto at = [&](const TensorView& tensor, const std::array<int64_t, 4>& start,
                      const std::array<int64_t, 4>& offset) {
    int64_t element = 0;
    for (size_t d = 0; d < 4; ++d) element = element * tensor.shape[d] + start[d] + offset[d];
    return static_cast<char*>(tensor.data) + element * size;
  };
  // One row of the last dimension at a time.
  const auto last = static_cast<size_t>(x.rank - 1);
  const auto row = static_cast<size_t>(box.extents[last] * size);
  std::array<int64_t, 4> extents = box.extents, offset = {};
  extents[last] = 1;
  for (offset[0] = 0; offset[0] < extents[0]; ++offset[0]) {
    for (offset[1] = 0; offset[1] < extents[1]; ++offset[1]) {
      for (offset[2] = 0; offset[2] < extents[2]; ++offset[2]) {
        for (offset[3] = 0; offset[3] < extents[3]; ++offset[3]) {
          std::memcpy(at(y, box.to, offset), at(x, box.from, offset), row);
        }
      }
    }
  }
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS

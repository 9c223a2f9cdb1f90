// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/rows.h"

namespace stretto::cuda {
namespace {

// The distance of neighbours in each dimension of a tensor, in elements.
struct Strides {
  int64_t of[4];
};
Strides StridesOf(const TensorView& tensor) {
  Strides strides{{1, 1, 1, 1}};
  for (int d = 2; d >= 0; --d) strides.of[d] = strides.of[d + 1] * tensor.shape[d + 1];
  return strides;
}
int64_t StartOf(const Strides& strides, const std::array<int64_t, 4>& starts) {
  int64_t start = 0;
  for (int d = 0; d < 4; ++d) start += strides.of[d] * starts[d];
  return start;
}

struct Extents {
  int64_t of[4];
};

template <class T>
__global__ void CopyElements(const T* x, Strides from, T* y, Strides to, Extents extents) {
  const int64_t count = extents.of[0] * extents.of[1] * extents.of[2] * extents.of[3];
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    int64_t rest = i, source = 0, target = 0;
    for (int d = 3; d >= 0; --d) {
      const int64_t at = rest % extents.of[d];
      rest /= extents.of[d];
      source += at * from.of[d];
      target += at * to.of[d];
    }
    y[target] = x[source];
  }
}

}  // namespace

void CudaOpsImpl::CopyBox(TensorView x, const BoxCopy& box, TensorView y) {
  STRETTO_CHECK(x.dtype == y.dtype && x.rank == y.rank);
  const auto copy = [&](auto element) {
    using T = decltype(element);
    const Strides from = StridesOf(x), to = StridesOf(y);
    Extents extents;
    int64_t count = 1;
    for (int d = 0; d < 4; ++d) count *= extents.of[d] = box.extents[d];
    Walk("copy_box", CeilDivide(count, Spread{}.threads), {}, CopyElements<T>,
         static_cast<const T*>(x.data) + StartOf(from, box.from), from,
         static_cast<T*>(y.data) + StartOf(to, box.to), to, extents);
  };
  // Elements are moved, whatever their type.
  SizeOf(x.dtype) == sizeof(uint16_t) ? copy(uint16_t{}) : copy(uint32_t{});
}

}  // namespace stretto::cuda

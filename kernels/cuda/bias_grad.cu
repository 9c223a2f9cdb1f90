// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/column_sums.h"

namespace stretto::cuda {
namespace {

template <class F>
struct BiasTerms {
  using T = typename F::T;
  static constexpr int kSums = 1;

  typename F::In dy;

  __device__ __forceinline__ void Add(int64_t row, int column,
                                      float (&sums)[kSums][kPack<T>]) const {
    const Pack<T> gradient = dy.Load(row, column);
    for (int k = 0; k < kPack<T>; ++k) sums[0][k] += ToFloat(gradient.at[k]);
  }
};

}  // namespace

void CudaOpsImpl::BiasGrad(TensorView dy, TensorView db) {
  STRETTO_CHECK(db.dtype == DType::kF32 && db.count() == dy.columns());
  WithForm(dy.columns(), {dy}, [&](auto form) {
    using F = decltype(form);
    SumColumns("bias_grad", BiasTerms<F>{PlainAs<typename F::In>(dy, dy.columns())}, dy.rows(),
               dy.columns(), {db.as<float>()});
  });
}

}  // namespace stretto::cuda

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/norm.h"

namespace stretto::cuda {

void CudaOpsImpl::LayerNorm(TensorView x, TensorView w, TensorView b, float epsilon, TensorView y,
                            TensorView stats) {
  STRETTO_CHECK(x.dtype == w.dtype && x.dtype == b.dtype && x.dtype == y.dtype);
  STRETTO_CHECK(w.count() == x.columns() && b.count() == x.columns() && y.count() == x.count());
  STRETTO_CHECK(stats.dtype == DType::kF32 && stats.count() == 2 * x.rows());
  const int64_t columns = x.columns();
  WithHeldForm(columns, {x, w, b, y}, [&](auto form, const Spread& spread) {
    using F = decltype(form);
    using In = typename F::In;
    Walk("layer_norm", x.rows(), spread, NormRows<true, F, PlainRow<F>>, PlainAs<In>(x, columns),
         PlainAs<In>(w, columns), PlainAs<In>(b, columns), epsilon,
         PlainAs<typename F::Out>(y, columns), stats.as<float>());
  });
}

void CudaOpsImpl::LayerNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView stats,
                                 TensorView residual, TensorView dx) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.dtype == w.dtype && dy.dtype == dx.dtype);
  STRETTO_CHECK(residual.data == nullptr || residual.dtype == dy.dtype);
  STRETTO_CHECK(dy.count() == x.count() && dx.count() == x.count() && w.count() == x.columns());
  STRETTO_CHECK(stats.dtype == DType::kF32 && stats.count() == 2 * x.rows());
  const int64_t columns = x.columns();
  WithHeldForm(columns, {dy, x, w, residual, dx}, [&](auto form, const Spread& spread) {
    using F = decltype(form);
    using In = typename F::In;
    Walk("layer_norm_dgrad", x.rows(), spread, NormRowsGrad<true, F>, BlockedAs<In>(dy, columns),
         PlainAs<In>(x, columns), PlainAs<In>(w, columns), stats.as<const float>(),
         PlainAs<In>(residual, columns), PlainAs<typename F::Out>(dx, columns));
  });
}

void CudaOpsImpl::LayerNormWgrad(TensorView dy, TensorView x, TensorView stats, TensorView dw,
                                 TensorView db) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.count() == x.count());
  STRETTO_CHECK(dw.dtype == DType::kF32 && db.dtype == DType::kF32);
  STRETTO_CHECK(dw.count() == x.columns() && db.count() == x.columns());
  STRETTO_CHECK(stats.dtype == DType::kF32 && stats.count() == 2 * x.rows());
  const int64_t columns = x.columns();
  WithForm(columns, {dy, x}, [&](auto form) {
    using F = decltype(form);
    using In = typename F::In;
    const NormWeightTerms<true, F> terms{BlockedAs<In>(dy, columns), PlainAs<In>(x, columns),
                                         stats.as<const float>()};
    SumColumns("layer_norm_wgrad", terms, x.rows(), columns, {dw.as<float>(), db.as<float>()});
  });
}

}  // namespace stretto::cuda

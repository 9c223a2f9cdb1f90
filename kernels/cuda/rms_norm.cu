// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/norm.h"

namespace stretto::cuda {

void CudaOpsImpl::RmsNorm(TensorView x, TensorView w, float epsilon, TensorView y,
                          TensorView rstd) {
  STRETTO_CHECK(x.dtype == w.dtype && x.dtype == y.dtype);
  STRETTO_CHECK(w.count() == x.columns() && y.count() == x.count());
  STRETTO_CHECK(rstd.dtype == DType::kF32 && rstd.count() == x.rows());
  const int64_t columns = x.columns();
  WithHeldForm(columns, {x, w, y}, [&](auto form, const Spread& spread) {
    using F = decltype(form);
    using In = typename F::In;
    Walk("rms_norm", x.rows(), spread, NormRows<false, F, PlainRow<F>>, PlainAs<In>(x, columns),
         PlainAs<In>(w, columns), In{}, epsilon, PlainAs<typename F::Out>(y, columns),
         rstd.as<float>());
  });
}

void CudaOpsImpl::RmsNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView rstd,
                               TensorView residual, TensorView dx) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.dtype == w.dtype && dy.dtype == dx.dtype);
  STRETTO_CHECK(residual.data == nullptr || residual.dtype == dy.dtype);
  STRETTO_CHECK(dy.count() == x.count() && dx.count() == x.count() && w.count() == x.columns());
  STRETTO_CHECK(rstd.dtype == DType::kF32 && rstd.count() == x.rows());
  const int64_t columns = x.columns();
  WithHeldForm(columns, {dy, x, w, residual, dx}, [&](auto form, const Spread& spread) {
    using F = decltype(form);
    using In = typename F::In;
    Walk("rms_norm_dgrad", x.rows(), spread, NormRowsGrad<false, F>,
         NormGradOperands<F>{.dy = BlockedAs<In>(dy, columns),
                             .x = PlainAs<In>(x, columns),
                             .w = PlainAs<In>(w, columns),
                             .residual = PlainAs<In>(residual, columns),
                             .stats = rstd.as<const float>(),
                             .dx = PlainAs<typename F::Out>(dx, columns)});
  });
}

void CudaOpsImpl::RmsNormWgrad(TensorView dy, TensorView x, TensorView rstd, TensorView dw) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.count() == x.count());
  STRETTO_CHECK(dw.dtype == DType::kF32 && dw.count() == x.columns());
  STRETTO_CHECK(rstd.dtype == DType::kF32 && rstd.count() == x.rows());
  NormWgrad<false, 1>("rms_norm_wgrad", dy, x, rstd, {dw.as<float>()});
}

void CudaOpsImpl::RmsNormGrads(TensorView dy, TensorView x, TensorView w, TensorView rstd,
                               TensorView residual, TensorView dx, TensorView dw) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.dtype == w.dtype && dy.dtype == dx.dtype);
  STRETTO_CHECK(residual.data == nullptr || residual.dtype == dy.dtype);
  STRETTO_CHECK(dy.count() == x.count() && dx.count() == x.count() && w.count() == x.columns());
  STRETTO_CHECK(rstd.dtype == DType::kF32 && rstd.count() == x.rows());
  STRETTO_CHECK(dw.dtype == DType::kF32 && dw.count() == x.columns());
  if (NormGrads<false, 1>("rms_norm_grads", dy, x, w, rstd, residual, dx, {dw.as<float>()})) return;
  CudaOps::RmsNormGrads(dy, x, w, rstd, residual, dx, dw);
}

}  // namespace stretto::cuda

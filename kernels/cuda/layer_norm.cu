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
    Walk("layer_norm_dgrad", x.rows(), spread, NormRowsGrad<true, F>,
         NormGradOperands<F>{.dy = BlockedAs<In>(dy, columns),
                             .x = PlainAs<In>(x, columns),
                             .w = PlainAs<In>(w, columns),
                             .residual = PlainAs<In>(residual, columns),
                             .stats = stats.as<const float>(),
                             .dx = PlainAs<typename F::Out>(dx, columns)});
  });
}

void CudaOpsImpl::LayerNormWgrad(TensorView dy, TensorView x, TensorView stats, TensorView dw,
                                 TensorView db) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.count() == x.count());
  STRETTO_CHECK(dw.dtype == DType::kF32 && db.dtype == DType::kF32);
  STRETTO_CHECK(dw.count() == x.columns() && db.count() == x.columns());
  STRETTO_CHECK(stats.dtype == DType::kF32 && stats.count() == 2 * x.rows());
  NormWgrad<true, 2>("layer_norm_wgrad", dy, x, stats, {dw.as<float>(), db.as<float>()});
}

void CudaOpsImpl::LayerNormGrads(TensorView dy, TensorView x, TensorView w, TensorView stats,
                                 TensorView residual, TensorView dx, TensorView dw, TensorView db) {
  STRETTO_CHECK(dy.dtype == x.dtype && dy.dtype == w.dtype && dy.dtype == dx.dtype);
  STRETTO_CHECK(residual.data == nullptr || residual.dtype == dy.dtype);
  STRETTO_CHECK(dy.count() == x.count() && dx.count() == x.count() && w.count() == x.columns());
  STRETTO_CHECK(stats.dtype == DType::kF32 && stats.count() == 2 * x.rows());
  STRETTO_CHECK(dw.dtype == DType::kF32 && db.dtype == DType::kF32);
  STRETTO_CHECK(dw.count() == x.columns() && db.count() == x.columns());
  if (NormGrads<true, 2>("layer_norm_grads", dy, x, w, stats, residual, dx,
                         {dw.as<float>(), db.as<float>()}))
    return;
  CudaOps::LayerNormGrads(dy, x, w, stats, residual, dx, dw, db);
}

}  // namespace stretto::cuda

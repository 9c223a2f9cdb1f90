// SPDX-License-Identifier: Apache-2.0

// Everything after an all-reduce in one kernel: the norm reads its row from BiasResidual's
// registers.
#include "kernels/cuda/norm.h"
#include "kernels/cuda/residual.h"

namespace stretto::cuda {

void CudaOpsImpl::BiasResidualLayerNorm(TensorView r, TensorView bias, TensorView x,
                                        Dropout dropout, TensorView keys, TensorView sum,
                                        TensorView w, TensorView b, float epsilon, TensorView y,
                                        TensorView stats) {
  STRETTO_CHECK(x.dtype == w.dtype && x.dtype == b.dtype && x.dtype == y.dtype);
  STRETTO_CHECK(w.count() == x.columns() && b.count() == x.columns() && y.count() == x.count());
  STRETTO_CHECK(stats.dtype == DType::kF32 && stats.count() == 2 * x.rows());
  const int64_t columns = x.columns();
  WithResidualRow(columns, dropout, {r, bias, x, sum, w, b, y},
                  [&](auto form, auto source, const Spread& spread) {
                    using F = decltype(form);
                    using In = typename F::In;
                    using Source = typename decltype(source)::Type;
                    Walk("bias_residual_layer_norm", x.rows(), spread, NormRows<true, F, Source>,
                         ResidualOperandsOf<F>(r, bias, x, dropout, keys, sum),
                         PlainAs<In>(w, columns), PlainAs<In>(b, columns), epsilon,
                         PlainAs<typename F::Out>(y, columns), stats.as<float>());
                  });
}

void CudaOpsImpl::BiasResidualRmsNorm(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                                      TensorView keys, TensorView sum, TensorView w, float epsilon,
                                      TensorView y, TensorView rstd) {
  STRETTO_CHECK(x.dtype == w.dtype && x.dtype == y.dtype);
  STRETTO_CHECK(w.count() == x.columns() && y.count() == x.count());
  STRETTO_CHECK(rstd.dtype == DType::kF32 && rstd.count() == x.rows());
  const int64_t columns = x.columns();
  WithResidualRow(
      columns, dropout, {r, bias, x, sum, w, y}, [&](auto form, auto source, const Spread& spread) {
        using F = decltype(form);
        using In = typename F::In;
        using Source = typename decltype(source)::Type;
        Walk("bias_residual_rms_norm", x.rows(), spread, NormRows<false, F, Source>,
             ResidualOperandsOf<F>(r, bias, x, dropout, keys, sum), PlainAs<In>(w, columns), In{},
             epsilon, PlainAs<typename F::Out>(y, columns), rstd.as<float>());
      });
}

}  // namespace stretto::cuda

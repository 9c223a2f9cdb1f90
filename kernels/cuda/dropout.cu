// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/draws.h"
#include "kernels/cuda/residual.h"

namespace stretto::cuda {
namespace {

template <class Source>
__global__ void __launch_bounds__(kMostThreads)
    BiasResidualRows(typename Source::Operands operands) {
  const Source source(operands);
  for (int64_t row = blockIdx.x; row < operands.y.count; row += gridDim.x) source(row);
}

template <class F, bool kDrop>
__global__ void DropPacks(typename F::In x, Drops drops, typename F::Out y) {
  using T = typename F::T;
  const Draws draws(drops);
  ForEachPack(x, [&](int64_t row, int column) {
    Pack<T> pack = x.Load(row, column);
    if constexpr (kDrop) {
      float factors[kPack<T>];
      draws.Factors(row, column, factors);
      for (int k = 0; k < kPack<T>; ++k) pack.at[k] = Round<T>(ToFloat(pack.at[k]) * factors[k]);
    }
    y.Store(row, column, pack);
  });
}

}  // namespace

void CudaOpsImpl::BiasResidual(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                               TensorView keys, TensorView y) {
  WithResidualRow(
      x.columns(), dropout, {r, bias, x, y}, [&](auto form, auto source, const Spread& spread) {
        Walk("bias_residual", x.rows(), spread, BiasResidualRows<typename decltype(source)::Type>,
             ResidualOperandsOf<decltype(form)>(r, bias, x, dropout, keys, y));
      });
}

void CudaOpsImpl::DropElements(TensorView x, Dropout dropout, TensorView keys, TensorView y) {
  STRETTO_CHECK(x.dtype == y.dtype && x.count() == y.count());
  if (!dropout.on() && x.data == y.data) return;
  WithForm(x.columns(), {x, y}, [&](auto form) {
    using F = decltype(form);
    const auto rows = PlainAs<typename F::In>(x, x.columns());
    Walk("drop_elements", PackBlocks(rows), {.threads = kWalkThreads},
         dropout.on() ? DropPacks<F, true> : DropPacks<F, false>, rows, DropsOf(dropout, keys),
         PlainAs<typename F::Out>(y, x.columns()));
  });
}

}  // namespace stretto::cuda

// SPDX-License-Identifier: Apache-2.0

// Chooses the kernel for a call of attention: the library's if it has one for the call, else tensor
// cores if there are tiles for its head dimension, else plain arithmetic.

#include "kernels/cuda/attention_call.h"
#include "kernels/cuda/cuda_ops_impl.h"

namespace stretto::cuda {
namespace {

// CHECKs the shapes that both directions share.
template <class T>
AttentionCall<T> CallOf(const AttentionShape& shape, const Dropout& dropout, const TensorView& keys,
                        const TensorView& documents, const TensorView& qkv,
                        const TensorView& context, const TensorView& lse) {
  STRETTO_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  STRETTO_CHECK(qkv.columns() == shape.qkv_columns());
  STRETTO_CHECK(context.columns() == shape.context_columns());
  STRETTO_CHECK(qkv.dtype == context.dtype && qkv.rows() == context.rows());
  STRETTO_CHECK(qkv.rows() % shape.sequence_length == 0);
  STRETTO_CHECK(lse.dtype == DType::kF32 && lse.count() == qkv.rows() * shape.heads);
  AttentionCall<T> call = {.qkv = qkv.as<const T>(),
                           .qkv_stride = shape.qkv_columns(),
                           .context_stride = shape.context_columns(),
                           .rows = qkv.rows(),
                           .length = static_cast<int>(shape.sequence_length),
                           .sequences = static_cast<int>(qkv.rows() / shape.sequence_length),
                           .heads = static_cast<int>(shape.heads),
                           .group = static_cast<int>(shape.heads / shape.kv_heads),
                           .head_dim = static_cast<int>(shape.head_dim),
                           .scale = shape.scale(),
                           .draws = {.keys = nullptr,
                                     .threshold = 0,
                                     .site = 0,
                                     .first_token = 0,
                                     .first_head = 0,
                                     .scale = 1}};
  if (documents.data != nullptr) {
    STRETTO_CHECK(documents.dtype == DType::kI32 && documents.count() == qkv.rows());
    call.documents = documents.as<const int32_t>();
  }
  if (!dropout.on()) return call;
  STRETTO_CHECK(keys.dtype == DType::kI32 && keys.count() >= kKeyCount);
  STRETTO_CHECK(dropout.threshold < (int64_t{1} << 32) && dropout.site < (1 << 16));
  call.draws = {.keys = keys.as<const uint32_t>(),
                .threshold = static_cast<uint32_t>(dropout.threshold),
                .site = static_cast<uint32_t>(dropout.site),
                .first_token = static_cast<uint32_t>(dropout.first_token),
                .first_head = static_cast<uint32_t>(shape.first_head),
                .scale = dropout.scale()};
  return call;
}

}  // namespace

// Forward keeps everything on the chip and does not use scratch.
void CudaOpsImpl::Attention(AttentionShape shape, Dropout dropout, TensorView keys,
                            TensorView documents, TensorView qkv, TensorView context,
                            TensorView lse, TensorView) {
  WithType(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    const AttentionCall<T> call = CallOf<T>(shape, dropout, keys, documents, qkv, context, lse);
    if constexpr (sizeof(T) == 2) {
      if (AsksLibrary(dropout, documents) &&
          options_.attention->Attention(shape, qkv, context, lse)) {
        return;
      }
      if (TiledAttention(call, context.as<T>(), lse.as<float>())) return;
    }
    PlainAttention(call, context.as<T>(), lse.as<float>());
  });
}

void CudaOpsImpl::AttentionGrad(AttentionShape shape, Dropout dropout, TensorView keys,
                                TensorView documents, TensorView dcontext, TensorView qkv,
                                TensorView context, TensorView lse, TensorView dqkv,
                                TensorView scratch) {
  STRETTO_CHECK(dqkv.dtype == qkv.dtype && dqkv.count() == qkv.count());
  STRETTO_CHECK(dcontext.dtype == qkv.dtype && dcontext.count() == context.count());
  STRETTO_CHECK(scratch.dtype == DType::kF32 &&
                scratch.count() >= AttentionScratch(shape, qkv.rows()));
  WithType(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    const AttentionCall<T> call = CallOf<T>(shape, dropout, keys, documents, qkv, context, lse);
    if (sizeof(T) == 2 && AsksLibrary(dropout, documents) && shape.library_scratch > 0 &&
        options_.attention->AttentionGrad(shape, dcontext, qkv, context, lse, dqkv, scratch)) {
      return;
    }
    auto* const statistics = static_cast<RowStatistics*>(scratch.data);
    AttentionStatistics(call, dcontext.as<const T>(), context.as<const T>(), lse.as<const float>(),
                        statistics);
    if constexpr (sizeof(T) == 2) {
      const Gradients all{dcontext.as<const T>(), statistics, dqkv.as<T>()};
      if (TiledQueryGrad(call, all) && TiledKeyGrad(call, all)) return;
    }
    PlainAttentionGrad(call, dcontext.as<const T>(), statistics, dqkv.as<T>());
  });
}

}  // namespace stretto::cuda

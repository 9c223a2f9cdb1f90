// Operations still to be written.
#include "kernels/cuda/cuda_ops_impl.h"

namespace stretto::cuda {

void CudaOpsImpl::BiasGrad(TensorView, TensorView) { STRETTO_CHECK(false && "BiasGrad"); }
void CudaOpsImpl::Embed(TensorView, TensorView, VocabShard, TensorView) { STRETTO_CHECK(false && "Embed"); }
void CudaOpsImpl::EmbedGrad(TensorView, TensorView, VocabShard, TensorView) { STRETTO_CHECK(false && "EmbedGrad"); }
void CudaOpsImpl::AddPosition(TensorView, int64_t, TensorView) { STRETTO_CHECK(false && "AddPosition"); }
void CudaOpsImpl::PositionGrad(TensorView, int64_t, TensorView) { STRETTO_CHECK(false && "PositionGrad"); }
void CudaOpsImpl::LayerNorm(TensorView, TensorView, TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "LayerNorm"); }
void CudaOpsImpl::LayerNormDgrad(TensorView, TensorView, TensorView, TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "LayerNormDgrad"); }
void CudaOpsImpl::LayerNormWgrad(TensorView, TensorView, TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "LayerNormWgrad"); }
void CudaOpsImpl::RmsNorm(TensorView, TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "RmsNorm"); }
void CudaOpsImpl::RmsNormDgrad(TensorView, TensorView, TensorView, TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "RmsNormDgrad"); }
void CudaOpsImpl::RmsNormWgrad(TensorView, TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "RmsNormWgrad"); }
void CudaOpsImpl::BiasResidual(TensorView, TensorView, TensorView, Dropout, TensorView, TensorView) { STRETTO_CHECK(false && "BiasResidual"); }
void CudaOpsImpl::DropElements(TensorView, Dropout, TensorView, TensorView) { STRETTO_CHECK(false && "DropElements"); }
void CudaOpsImpl::SwiGlu(TensorView, TensorView) { STRETTO_CHECK(false && "SwiGlu"); }
void CudaOpsImpl::SwiGluGrad(TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "SwiGluGrad"); }
void CudaOpsImpl::Rotary(AttentionShape, int64_t, bool, TensorView) { STRETTO_CHECK(false && "Rotary"); }
void CudaOpsImpl::Attention(AttentionShape, Dropout, TensorView, TensorView, TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "Attention"); }
void CudaOpsImpl::AttentionGrad(AttentionShape, Dropout, TensorView, TensorView, TensorView, TensorView, TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "AttentionGrad"); }
void CudaOpsImpl::CrossEntropyMax(TensorView, VocabShard, TensorView) { STRETTO_CHECK(false && "CrossEntropyMax"); }
void CudaOpsImpl::CrossEntropySum(TensorView, TensorView, TensorView, VocabShard, TensorView) { STRETTO_CHECK(false && "CrossEntropySum"); }
void CudaOpsImpl::CrossEntropyLoss(TensorView, TensorView) { STRETTO_CHECK(false && "CrossEntropyLoss"); }
void CudaOpsImpl::CrossEntropyGrad(TensorView, TensorView, TensorView, TensorView, VocabShard, TensorView) { STRETTO_CHECK(false && "CrossEntropyGrad"); }
void CudaOpsImpl::SumSquares(TensorView, TensorView) { STRETTO_CHECK(false && "SumSquares"); }
void CudaOpsImpl::Sum(TensorView, TensorView) { STRETTO_CHECK(false && "Sum"); }
void CudaOpsImpl::Clip(TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "Clip"); }
void CudaOpsImpl::AdamW(TensorView, TensorView, TensorView, bool, TensorView, TensorView, TensorView, TensorView) { STRETTO_CHECK(false && "AdamW"); }

}  // namespace stretto::cuda

#include "kernels/cuda/cuda_ops_impl.h"
namespace stretto::cuda {
void CudaOpsImpl::Attention(AttentionShape, Dropout, TensorView, TensorView, TensorView c,
                            TensorView l, TensorView) {
  Zero(c);
  Zero(l);
}
void CudaOpsImpl::AttentionGrad(AttentionShape, Dropout, TensorView, TensorView, TensorView,
                                TensorView, TensorView, TensorView d, TensorView) {
  Zero(d);
}
}  // namespace stretto::cuda

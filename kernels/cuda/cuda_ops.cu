// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "kernels/cuda/cuda_ops_impl.h"

namespace stretto {
namespace cuda {

void CudaOpsImpl::LimitSms(int sms) {
  sm_limit_ = sms;
  if (options_.products != nullptr) options_.products->LimitSms(sms);
}

void CudaOpsImpl::Keep(const char* name, cudaError_t status) {
  if (status == cudaSuccess || !error_.empty()) return;
  error_ = std::string(name) + ": " + cudaGetErrorName(status) + ": " + cudaGetErrorString(status);
}

void CudaOpsImpl::Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) {
  options_.products->Gemm(x, w, bias, y);
}
void CudaOpsImpl::GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) {
  options_.products->GemmDgrad(dy, w, first_column, dx);
}
void CudaOpsImpl::GemmWgrad(TensorView dy, TensorView x, TensorView dw) {
  options_.products->GemmWgrad(dy, x, dw);
}

void CudaOpsImpl::Zero(TensorView x) {
  Keep("zero", cudaMemsetAsync(x.data, 0, static_cast<size_t>(x.bytes()), stream()));
}

}  // namespace cuda

std::unique_ptr<CudaOps> MakeCudaOps(const CudaOpsOptions& options) {
  return std::make_unique<cuda::CudaOpsImpl>(options);
}

}  // namespace stretto

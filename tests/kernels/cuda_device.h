// SPDX-License-Identifier: Apache-2.0
#pragma once
// What tests of CUDA operations share: a stream, its workspaces, the store of tuned products.

#include <memory>

#include "kernels/cuda/cublaslt_products.h"

namespace stretto {

class CudaDevice {
 public:
  // Of the process, made at the first call; ends the process where there is no GPU. From then on
  // tensors of tests lie in managed memory.
  static CudaDevice& Get();

  // Products that pin algorithms of `tunings`.
  std::unique_ptr<MatrixProducts> Products(cuda::Tunings* tunings, bool pin = true,
                                           bool tune = true);
  cuda::Tunings EmptyTunings();
  // Operations on no more than that many SMs; 0: all.
  std::unique_ptr<CudaOps> Ops(int sms, FusedAttention* attention = nullptr);
  void Wait();

  void* stream() const { return stream_; }
  void* workspace() const { return workspace_; }  // kCudaWorkspaceBytes
  int sm_count() const { return sm_count_; }

 private:
  CudaDevice();
  void* stream_ = nullptr;
  void* workspace_ = nullptr;
  void* products_workspace_ = nullptr;
  int sm_count_ = 0;
  std::unique_ptr<cuda::Tunings> tunings_;
  std::unique_ptr<MatrixProducts> products_;
};

}  // namespace stretto

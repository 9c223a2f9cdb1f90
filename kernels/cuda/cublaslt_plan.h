// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cuBLASLt descriptors of a product.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/cublaslt_products.h"
#include "kernels/cuda/tuning/tunings.h"

namespace stretto::cuda {

// Names the call that failed and its reason.
absl::Status CublasStatus(cublasStatus_t status, const char* call);
absl::Status CudaStatus(cudaError_t status, const char* call);

template <class T, auto Destroy>
struct Destroyer {
  void operator()(T value) const { Destroy(value); }
  using pointer = T;
};
template <class T, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Destroyer<T, Destroy>>;

using MatmulDesc = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

struct Plan {
  MatmulDesc description;
  MatrixLayout a, b, d;
  float beta = 0;
  cublasLtMatmulAlgo_t algorithm = {};
};

// Makes everything except the algorithm. sms: the SMs to plan for, 0 for all.
absl::StatusOr<Plan> MakePlan(const Product& product, int sms);

// Returns the algorithms that the library proposes within the workspace, in its order. With
// `whole_sums`, only algorithms that add the products of an element in one pass.
absl::StatusOr<std::vector<Algorithm>> Proposals(cublasLtHandle_t handle, const Product& product,
                                                 const Plan& plan, bool whole_sums);

// Whether the algorithm can run this plan within the workspace.
bool CanRun(cublasLtHandle_t handle, const Plan& plan, const Algorithm& algorithm);

cublasLtMatmulAlgo_t WordsOf(const Algorithm& algorithm);

struct Workspace {
  void* data = nullptr;
  cudaStream_t stream = nullptr;
  std::chrono::milliseconds patience = {};  // how long to wait for earlier work on the stream
};
cublasStatus_t Launch(cublasLtHandle_t handle, const Plan& plan,
                      const cublasLtMatmulAlgo_t& algorithm, const ProductCall& call,
                      const Workspace& workspace);

// An algorithm and the plan that it runs with, borrowed.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  const Plan* plan = nullptr;
  double microseconds = 0;  // alone, as a start for how long company must stay; 0: none
};

// Times each candidate on random numbers, in microseconds; the times of one that fails are empty.
// Those that name microseconds are timed beside `company`. Waits for the stream. Errors:
// ResourceExhausted (no memory for the operands), DeadlineExceeded (earlier work on the stream did
// not end), Unavailable (the company cannot begin).
absl::StatusOr<std::vector<std::vector<double>>> TimesOf(cublasLtHandle_t handle,
                                                         const Product& product,
                                                         const std::vector<Candidate>& candidates,
                                                         const Workspace& workspace,
                                                         const ProductCompany& company = {});

}  // namespace stretto::cuda

// SPDX-License-Identifier: Apache-2.0

// Turns a product into cuBLASLt's descriptors, asks for algorithms, checks that a stored one can
// run, and launches. Calls collects the status of a sequence of setters and reports the first
// failure.

#include "kernels/cuda/cublaslt_plan.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cublaslt_products.h"
#include "proto/base/check.h"

namespace stretto::cuda {
namespace {

constexpr int kProposals = 16;

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kI32:
      break;
  }
  STRETTO_CHECK(false && "a product of integers");
}

// Remembers the first call that failed, so that a sequence of calls needs one check.
class Calls {
 public:
  void Did(cublasStatus_t status, const char* call) {
    if (status_.ok()) status_ = CublasStatus(status, call);
  }
  template <class T>
  void Set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
           const T& value) {
    Did(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
  }
  template <class T>
  void Set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
           const T& value) {
    Did(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
  }
  MatrixLayout Layout(DType dtype, int64_t rows, int64_t columns, int64_t ld) {
    cublasLtMatrixLayout_t layout = nullptr;
    Did(cublasLtMatrixLayoutCreate(&layout, TypeOf(dtype), static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(columns), ld),
        "cublasLtMatrixLayoutCreate");
    return MatrixLayout(layout);
  }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

template <class T>
T Configuration(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t what,
                T otherwise) {
  T value = otherwise;
  size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, what, &value, sizeof(value), &written);
  return status == CUBLAS_STATUS_SUCCESS && written == sizeof(value) ? value : otherwise;
}

bool AddsInOneGo(const cublasLtMatmulAlgo_t& algorithm) {
  return Configuration<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 1) <= 1 &&
         Configuration<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                 CUBLASLT_REDUCTION_SCHEME_NONE) == CUBLASLT_REDUCTION_SCHEME_NONE;
}

}  // namespace

absl::Status CublasStatus(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", cublasLtGetStatusName(status)));
}

absl::Status CudaStatus(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return absl::OkStatus();
  const std::string text = absl::StrCat(call, ": ", cudaGetErrorName(status));
  return status == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                             : absl::UnavailableError(text);
}

absl::StatusOr<Plan> MakePlan(const Product& p, int sms) {
  Calls calls;
  cublasLtMatmulDesc_t description = nullptr;
  calls.Did(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            "cublasLtMatmulDescCreate");
  if (!calls.status().ok()) return calls.status();
  Plan plan;
  plan.description.reset(description);
  plan.beta = p.accumulate ? 1.0f : 0.0f;
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  calls.Set<int32_t>(description, CUBLASLT_MATMUL_DESC_TRANSA, operation(p.transpose_a));
  calls.Set<int32_t>(description, CUBLASLT_MATMUL_DESC_TRANSB, operation(p.transpose_b));
  if (sms > 0) calls.Set<int32_t>(description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, sms);
  if (p.bias) {
    calls.Set<uint32_t>(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    calls.Set<int32_t>(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(p.out));
    // Not an address yet: proposals are made for pointers with this alignment.
    calls.Set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<uintptr_t>(p.alignment));
  }
  plan.a =
      p.transpose_a ? calls.Layout(p.in, p.k, p.m, p.lda) : calls.Layout(p.in, p.m, p.k, p.lda);
  plan.b =
      p.transpose_b ? calls.Layout(p.in, p.n, p.k, p.ldb) : calls.Layout(p.in, p.k, p.n, p.ldb);
  plan.d = calls.Layout(p.out, p.m, p.n, p.ldd);
  if (!calls.status().ok()) return calls.status();
  return plan;
}

absl::StatusOr<std::vector<Algorithm>> Proposals(cublasLtHandle_t handle, const Product& product,
                                                 const Plan& plan, bool whole_sums) {
  Calls calls;
  cublasLtMatmulPreference_t created = nullptr;
  calls.Did(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  if (!calls.status().ok()) return calls.status();
  const Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference(created);
  calls.Set<uint64_t>(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kProductsWorkspaceBytes);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    calls.Set<uint32_t>(created, attribute, static_cast<uint32_t>(product.alignment));
  }
  if (whole_sums) {
    calls.Set<uint32_t>(created, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                        CUBLASLT_REDUCTION_SCHEME_NONE);
  }
  if (!calls.status().ok()) return calls.status();

  cublasLtMatmulHeuristicResult_t results[kProposals];
  int found = 0;
  calls.Did(cublasLtMatmulAlgoGetHeuristic(handle, plan.description.get(), plan.a.get(),
                                           plan.b.get(), plan.d.get(), plan.d.get(), created,
                                           kProposals, results, &found),
            "cublasLtMatmulAlgoGetHeuristic");
  if (!calls.status().ok()) return calls.status();
  std::vector<Algorithm> algorithms;
  for (int i = 0; i < found; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    if (whole_sums && !AddsInOneGo(results[i].algo)) continue;
    Algorithm& algorithm = algorithms.emplace_back();
    static_assert(sizeof(algorithm.words) == sizeof(results[i].algo));
    std::memcpy(algorithm.words.data(), &results[i].algo, sizeof(algorithm.words));
    algorithm.workspace_bytes = static_cast<int64_t>(results[i].workspaceSize);
  }
  return algorithms;
}

bool CanRun(cublasLtHandle_t handle, const Plan& plan, const Algorithm& algorithm) {
  const cublasLtMatmulAlgo_t words = WordsOf(algorithm);
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle, plan.description.get(), plan.a.get(), plan.b.get(),
                              plan.d.get(), plan.d.get(), &words, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kProductsWorkspaceBytes;
}

cublasLtMatmulAlgo_t WordsOf(const Algorithm& algorithm) {
  cublasLtMatmulAlgo_t words;
  std::memcpy(&words, algorithm.words.data(), sizeof(words));
  return words;
}

cublasStatus_t Launch(cublasLtHandle_t handle, const Plan& plan,
                      const cublasLtMatmulAlgo_t& algorithm, const ProductCall& call,
                      const Workspace& workspace) {
  if (call.bias != nullptr) {
    const cublasStatus_t status = cublasLtMatmulDescSetAttribute(
        plan.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &call.bias, sizeof(call.bias));
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  const float alpha = 1;
  return cublasLtMatmul(handle, plan.description.get(), &alpha, call.a, plan.a.get(), call.b,
                        plan.b.get(), &plan.beta, call.d, plan.d.get(), call.d, plan.d.get(),
                        &algorithm, workspace.data, kProductsWorkspaceBytes, workspace.stream);
}

}  // namespace stretto::cuda

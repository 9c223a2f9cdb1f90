// SPDX-License-Identifier: Apache-2.0

// Times a product with one of cuBLASLt's fused epilogues, on zeros, with every algorithm that the
// library proposes for it, and returns the best time. It exists to decide by measurement; no step
// runs these epilogues.

#include "kernels/cuda/cublaslt_epilogues.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cublaslt_plan.h"
#include "kernels/cuda/cublaslt_products.h"
#include "proto/base/check.h"

namespace stretto {
namespace cuda {
namespace {

Product ProductOf(const EpilogueProduct& e) {
  switch (e.epilogue) {
    case Epilogue::kGelu:
      return {.m = e.out,
              .n = e.tokens,
              .k = e.in,
              .transpose_a = true,
              .lda = e.in,
              .ldb = e.in,
              .ldd = e.out,
              .in = e.dtype,
              .out = e.dtype,
              .bias = true};
    case Epilogue::kBiasGrad:
      return {.m = e.in,
              .n = e.out,
              .k = e.tokens,
              .transpose_b = true,
              .lda = e.in,
              .ldb = e.out,
              .ldd = e.in,
              .in = e.dtype,
              .out = DType::kF32,
              .accumulate = true};
    case Epilogue::kGeluGrad:
    case Epilogue::kGeluGradBias:
      return {.m = e.in,
              .n = e.tokens,
              .k = e.out,
              .lda = e.in,
              .ldb = e.out,
              .ldd = e.in,
              .in = e.dtype,
              .out = e.dtype};
  }
  STRETTO_CHECK(false);
}

cublasLtEpilogue_t NameOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kGelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kGeluGrad:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kGeluGradBias:
      return CUBLASLT_EPILOGUE_DGELU_BGRAD;
    case Epilogue::kBiasGrad:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  STRETTO_CHECK(false);
}

// `aux` holds the input of GELU, `sums` receives a bias gradient.
absl::Status SetEpilogue(const Plan& plan, const Product& product, Epilogue epilogue, void* aux,
                         void* sums) {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return cublasLtMatmulDescSetAttribute(plan.description.get(), attribute, &value, sizeof(value));
  };
  cublasStatus_t status =
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(NameOf(epilogue)));
  if (epilogue != Epilogue::kBiasGrad) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status = set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    if (status == CUBLAS_STATUS_SUCCESS)
      status = set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.ldd);
  }
  const bool sums_up = epilogue == Epilogue::kGeluGradBias || epilogue == Epilogue::kBiasGrad;
  if (sums_up && status == CUBLAS_STATUS_SUCCESS)
    status = set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, sums);
  return CublasStatus(status, "cublasLtMatmulDescSetAttribute");
}

struct GiveBack {
  void operator()(void* memory) const { cudaFreeAsync(memory, nullptr); }
};
using Memory = std::unique_ptr<void, GiveBack>;

// Allocates zeros, which are as good as any values for operands that do not affect the time.
absl::StatusOr<Memory> Zeros(int64_t bytes) {
  void* memory = nullptr;
  const size_t size = bytes;
  if (absl::Status status = CudaStatus(cudaMallocAsync(&memory, size, nullptr), "cudaMallocAsync");
      !status.ok()) {
    cudaGetLastError();  // handled here; not an error of the stream
    return status;
  }
  Memory owned(memory);
  const absl::Status status =
      CudaStatus(cudaMemsetAsync(memory, 0, size, nullptr), "cudaMemsetAsync");
  if (!status.ok()) return status;
  return owned;
}

absl::StatusOr<double> Time(const EpilogueProduct& wanted) {
  const Product product = ProductOf(wanted);
  cublasLtHandle_t created = nullptr;
  absl::Status status = CublasStatus(cublasLtCreate(&created), "cublasLtCreate");
  if (!status.ok()) return status;
  const Owned<cublasLtHandle_t, cublasLtDestroy> handle(created);
  const absl::StatusOr<Memory> workspace = Zeros(int64_t{kProductsWorkspaceBytes});
  const absl::StatusOr<Memory> aux =
      Zeros(product.m * product.n * static_cast<int64_t>(SizeOf(product.out)));
  const absl::StatusOr<Memory> sums = Zeros((product.m + product.n) * int64_t{sizeof(float)});
  const absl::StatusOr<Plan> plan = MakePlan(product, 0);
  for (const absl::Status& each :
       {workspace.status(), aux.status(), sums.status(), plan.status()}) {
    if (!each.ok()) return each;
  }
  status = SetEpilogue(*plan, product, wanted.epilogue, aux->get(), sums->get());
  if (!status.ok()) return status;
  const absl::StatusOr<std::vector<Algorithm>> proposals =
      Proposals(handle.get(), product, *plan, true);
  if (!proposals.ok()) {  // also when the library refuses the combination of types
    return absl::UnimplementedError(absl::StrCat("cuBLASLt proposes nothing for this epilogue: ",
                                                 proposals.status().message()));
  }
  const Workspace on{.data = workspace->get(), .patience = std::chrono::seconds(30)};
  const absl::StatusOr<std::vector<std::vector<double>>> times =
      TimesOf(handle.get(), product, *plan, *proposals, on);
  if (!times.ok()) return times.status();
  const int best = FastestOf(*times);
  if (best < 0) return absl::UnimplementedError("cuBLASLt has no algorithm with this epilogue");
  return 1e-6 * MedianOf((*times)[best]);
}

}  // namespace
}  // namespace cuda

absl::StatusOr<double> TimeEpilogue(const EpilogueProduct& product) { return cuda::Time(product); }

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/fake_cublaslt.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "kernels/bf16.h"
#include "proto/base/check.h"

using stretto::FakeCublasLt;

namespace {

constexpr uint64_t kMagic = 0xc0b1a5;
double now_microseconds = 0;

FakeCublasLt& Fake() { return FakeCublasLt::Get(); }

struct Desc {
  std::map<int, int64_t> attributes;
  int64_t Get(int attribute, int64_t otherwise) const {
    const auto at = attributes.find(attribute);
    return at == attributes.end() ? otherwise : at->second;
  }
};
struct Layout {
  cudaDataType_t type;
  int64_t rows, columns, ld;
};

template <class T>
T& Of(void* opaque) {
  return *static_cast<T*>(opaque);
}
// All attributes that are set have 4 or 8 bytes.
int64_t ValueOf(const void* from, size_t bytes) {
  int32_t small = 0;
  int64_t value = 0;
  STRETTO_CHECK(bytes == 4 || bytes == 8);
  std::memcpy(bytes == 4 ? static_cast<void*>(&small) : &value, from, bytes);
  return bytes == 4 ? small : value;
}

const FakeCublasLt::Choice* ChoiceOf(const cublasLtMatmulAlgo_t& algorithm) {
  if (algorithm.data[1] != kMagic || algorithm.data[0] >= Fake().choices.size()) return nullptr;
  return &Fake().choices[algorithm.data[0]];
}

float Load(const void* from, cudaDataType_t type, int64_t at) {
  if (type == CUDA_R_16BF) return stretto::ToFloat(static_cast<const stretto::BF16*>(from)[at]);
  return static_cast<const float*>(from)[at];
}
void Store(void* to, cudaDataType_t type, int64_t at, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<stretto::BF16*>(to)[at] = stretto::ToBF16(value);
  } else {
    static_cast<float*>(to)[at] = value;
  }
}

}  // namespace

FakeCublasLt& FakeCublasLt::Get() {
  static auto* fake = new FakeCublasLt;
  return *fake;
}

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (Fake().no_handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED"
                                                 : "CUBLAS_STATUS_EXECUTION_FAILED";
}
size_t cublasLtGetVersion() { return 130100; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  STRETTO_CHECK(compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F);
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete reinterpret_cast<Desc*>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  Of<Desc>(desc).attributes[attribute] = ValueOf(value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  STRETTO_CHECK(static_cast<int64_t>(rows) <= ld);
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Desc*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  Of<Desc>(preference).attributes[attribute] = ValueOf(value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  ++Fake().heuristics;
  const Desc& wanted = Of<Desc>(preference);
  Fake().alignments.push_back(
      static_cast<uint32_t>(wanted.Get(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 256)));
  *found = 0;
  for (size_t i = 0; i < Fake().choices.size() && *found < requested; ++i) {
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    result.algo.data[0] = i;
    result.algo.data[1] = kMagic;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const FakeCublasLt::Choice* choice = ChoiceOf(*algorithm);
  *result = {};
  const bool runs = choice != nullptr && Of<Layout>(d).columns <= choice->most_tokens;
  return runs ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  const int32_t splits = ChoiceOf(*algorithm)->splits;
  const int32_t answer = attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? splits
                         : splits > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                      : CUBLASLT_REDUCTION_SCHEME_NONE;
  STRETTO_CHECK(bytes == sizeof(answer));
  std::memcpy(value, &answer, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                              cudaStream_t) {
  const FakeCublasLt::Choice* choice = ChoiceOf(*algorithm);
  const Layout& la = Of<Layout>(a_layout);
  const Layout& lb = Of<Layout>(b_layout);
  const Layout& ld = Of<Layout>(d_layout);
  STRETTO_CHECK(choice != nullptr && ld.columns <= choice->most_tokens);
  STRETTO_CHECK(c == d && *static_cast<const float*>(alpha) == 1);
  STRETTO_CHECK(workspace != nullptr && bytes == size_t{32} << 20);
  if (!choice->runs) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Desc& what = Of<Desc>(desc);
  ++Fake().launches[static_cast<int>(algorithm->data[0])];
  const int64_t target = what.Get(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 0);
  ++Fake().sm_targets[static_cast<int>(target)];
  const double beside = target > 0 ? choice->limited : choice->beside;
  now_microseconds += Fake().company && beside > 0 ? beside : choice->microseconds;
  const auto epilogue =
      static_cast<int>(what.Get(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT));
  const bool ta = what.Get(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
  const bool tb = what.Get(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T;
  const int64_t k = ta ? la.rows : la.columns;
  STRETTO_CHECK((ta ? la.columns : la.rows) == ld.rows);
  STRETTO_CHECK((tb ? lb.rows : lb.columns) == ld.columns && (tb ? lb.columns : lb.rows) == k);
  const bool biased = epilogue == CUBLASLT_EPILOGUE_BIAS;
  STRETTO_CHECK(biased || epilogue == CUBLASLT_EPILOGUE_DEFAULT);
  const auto* bias = reinterpret_cast<const void*>(what.Get(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 0));
  const auto bias_type =
      static_cast<cudaDataType_t>(what.Get(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, -1));
  const float scale = *static_cast<const float*>(beta);
  for (int64_t j = 0; j < ld.columns; ++j) {
    for (int64_t i = 0; i < ld.rows; ++i) {
      float sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += Load(a, la.type, ta ? l + i * la.ld : i + l * la.ld) *
               Load(b, lb.type, tb ? j + l * lb.ld : l + j * lb.ld);
      }
      const int64_t at = i + j * ld.ld;
      if (scale != 0) sum += scale * Load(d, ld.type, at);
      Store(d, ld.type, at, sum + (biased ? Load(bias, bias_type, i) : 0));
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
  *memory = Fake().out_of_memory ? nullptr : std::malloc(bytes);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorMemoryAllocation"; }
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new double(0));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<double*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  Of<double>(event) = now_microseconds;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = static_cast<float>((Of<double>(end) - Of<double>(begin)) / 1e3);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  STRETTO_CHECK(flags == cudaStreamNonBlocking && priority == -5);
  *stream = reinterpret_cast<cudaStream_t>(new int);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<int*>(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  Fake().company = false;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t) { return Fake().busy ? cudaErrorNotReady : cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = Fake().capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Fake GPU");
  return cudaSuccess;
}

}  // extern "C"

// SPDX-License-Identifier: Apache-2.0

// The vendor's libraries themselves, without a GPU: they open, they have every function that we
// call, their versions are those that our headers allow, and cuBLASLt takes each of our attributes
// in the size that we give it. They are those of STRETTO_CUDA_LIBRARIES, else of the toolkit; what is
// in neither is skipped.
#include <cublasLt.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/cuda/cublaslt_plan.h"
#include "worker/engine/exec/backend_cuda/cupti_trace.h"
#include "worker/engine/exec/plugin/loader.h"
#if STRETTO_TESTS_NCCL
#include "worker/comm/nccl/nccl_library.h"
#endif

namespace stretto {
namespace {

std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  if (const char* given = std::getenv("STRETTO_CUDA_LIBRARIES"); given != nullptr) {
    for (absl::string_view folder : absl::StrSplit(given, ':', absl::SkipEmpty()))
      folders.emplace_back(folder);
  }
  folders.emplace_back(CUDA_TOOLKIT_LIBRARIES);
  return folders;
}

std::string Missing(const std::string& file) {
  return "no " + file + " in " + absl::StrJoin(Folders(), ", ");
}

TEST(RealLibrariesTest, NcclHasEveryFunctionAndANewEnoughVersion) {
#if STRETTO_TESTS_NCCL
  const std::string path = FindFile(Folders(), "libnccl.so.2");
  if (path.empty()) GTEST_SKIP() << Missing("libnccl.so.2");
  const absl::StatusOr<NcclLibrary> nccl = NcclLibrary::Open(path);
  ASSERT_TRUE(nccl.ok()) << nccl.status();
  std::cout << path << ": " << nccl->version << "\n";
  // A message of the library itself, through a function that it was asked for by name.
  EXPECT_THAT(nccl->GetErrorString(ncclInvalidArgument), testing::HasSubstr("invalid argument"));
#else
  GTEST_SKIP() << "this build had no nccl.h";
#endif
}

TEST(RealLibrariesTest, CuptiHasEveryFunctionAndTakesOurCallbacks) {
  const std::string file = "libcupti.so." CUDA_MAJOR;
  const std::string path = FindFile(Folders(), file);
  if (path.empty()) GTEST_SKIP() << Missing(file);
  const auto trace = cuda::CuptiTrace::Open(path);
  if (absl::IsUnimplemented(trace.status())) GTEST_SKIP() << trace.status();
  ASSERT_TRUE(trace.ok()) << trace.status();
  std::cout << path << "\n";
}

// This program is linked to it, as the plug-in is.
TEST(RealLibrariesTest, CublasLtTakesEveryAttributeOfAProduct) {
  std::cout << "cuBLASLt " << cublasLtGetVersion() << ", header " << CUBLAS_VERSION << "\n";
  EXPECT_GE(cublasLtGetVersion(), size_t{CUBLAS_VERSION});
  EXPECT_EQ(cublasLtGetVersion() / 10000, size_t{CUBLAS_VERSION} / 10000);
  for (bool transposed : {false, true}) {
    const cuda::Product product{.m = 256,
                                .n = 128,
                                .k = 64,
                                .transpose_a = transposed,
                                .transpose_b = !transposed,
                                .lda = transposed ? 64 : 256,
                                .ldb = transposed ? 64 : 128,
                                .ldd = 256,
                                .in = DType::kBF16,
                                .out = DType::kBF16,
                                .bias = true};
    const absl::StatusOr<cuda::Plan> plan = cuda::MakePlan(product, /*sms=*/124);
    ASSERT_TRUE(plan.ok()) << plan.status();
    int32_t sms = 0;
    size_t written = 0;
    ASSERT_EQ(cublasLtMatmulDescGetAttribute(plan->description.get(),
                                             CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &sms,
                                             sizeof(sms), &written),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(written, sizeof(sms));
    EXPECT_EQ(sms, 124);
    // Only the question for algorithms, behind all preferences, needs a device.
    const auto proposals = cuda::Proposals(nullptr, product, *plan, /*whole_sums=*/true);
    EXPECT_THAT(proposals.status().ToString(),
                testing::HasSubstr("cublasLtMatmulAlgoGetHeuristic"));
  }
}

}  // namespace
}  // namespace stretto

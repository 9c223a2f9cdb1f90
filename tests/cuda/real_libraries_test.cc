// SPDX-License-Identifier: Apache-2.0

// The vendor's libraries themselves, without a GPU: they open, they have every function that we
// call, their versions are those that our headers allow, cuBLASLt takes each of our attributes in
// the size that we give it, and structures that NCCL and CUPTI write have the sizes that we expect.
// They are those of STRETTO_CUDA_LIBRARIES, else of the toolkit; what is in neither is skipped.
#include <cublasLt.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/cuda/cublaslt_plan.h"
#include "worker/engine/exec/backend_cuda/cupti_trace.h"
#include "worker/engine/exec/plugin/loader.h"
#if STRETTO_TESTS_NCCL
#include "worker/comm/nccl/nccl_library.h"
#endif
#if __has_include(<cupti.h>)
#include <cupti.h>
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

// The library fills an id, which it gets by its address.
TEST(RealLibrariesTest, NcclsIdHasTheSizeOfOurHeader) {
#if STRETTO_TESTS_NCCL
  const std::string path = FindFile(Folders(), "libnccl.so.2");
  if (path.empty()) GTEST_SKIP() << Missing("libnccl.so.2");
  const absl::StatusOr<NcclLibrary> nccl = NcclLibrary::Open(path);
  ASSERT_TRUE(nccl.ok()) << nccl.status();
  constexpr unsigned char kUntouched = 0xa5, kOther = 0x5a;
  std::array<unsigned char, 2 * sizeof(ncclUniqueId)> once, twice;
  once.fill(kUntouched);
  twice.fill(kOther);
  for (auto* memory : {&once, &twice}) {
    const ncclResult_t result = nccl->GetUniqueId(reinterpret_cast<ncclUniqueId*>(memory->data()));
    if (result != ncclSuccess) GTEST_SKIP() << "no id here: " << nccl->GetLastError(nullptr);
  }
  for (size_t i = 0; i < once.size(); ++i) {
    const bool untouched = once[i] == kUntouched && twice[i] == kOther;
    EXPECT_EQ(untouched, i >= sizeof(ncclUniqueId)) << "byte " << i;
  }
  // Of a configuration it reads as many bytes as it says.
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(config.size, sizeof(config));
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

#if __has_include(<cupti.h>)
// The library steps over the records of a buffer by its own sizes of them.
TEST(RealLibrariesTest, CuptisRecordsHaveTheSizesOfOurHeader) {
  const std::string file = "libcupti.so." CUDA_MAJOR;
  const std::string path = FindFile(Folders(), file);
  if (path.empty()) GTEST_SKIP() << Missing(file);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto next = reinterpret_cast<decltype(&cuptiActivityGetNextRecord)>(
      dlsym(library, "cuptiActivityGetNextRecord"));
  ASSERT_NE(next, nullptr);
  const auto size_of = [&](CUpti_ActivityKind kind) {
    alignas(std::max_align_t) std::array<uint8_t, 2048> buffer = {};
    for (size_t at = 0; at < buffer.size(); at += 8)  // wherever the next record is
      std::memcpy(&buffer[at], &kind, sizeof(kind));
    CUpti_Activity* record = nullptr;
    EXPECT_EQ(next(buffer.data(), buffer.size(), &record), CUPTI_SUCCESS);
    const auto* first = reinterpret_cast<uint8_t*>(record);
    EXPECT_EQ(next(buffer.data(), buffer.size(), &record), CUPTI_SUCCESS);
    return static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - first);
  };
  uint32_t version = 0;
  const auto get_version =
      reinterpret_cast<decltype(&cuptiGetVersion)>(dlsym(library, "cuptiGetVersion"));
  ASSERT_NE(get_version, nullptr);
  ASSERT_EQ(get_version(&version), CUPTI_SUCCESS);
  // The records of cupti_trace.cc.
  for (const auto& [kind, size] :
       {std::pair(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, sizeof(CUpti_ActivityKernel10)),
        std::pair(CUPTI_ACTIVITY_KIND_MEMCPY, sizeof(CUpti_ActivityMemcpy6)),
        std::pair(CUPTI_ACTIVITY_KIND_MEMSET, sizeof(CUpti_ActivityMemset4))}) {
    if (version == CUPTI_API_VERSION) {
      EXPECT_EQ(size_of(kind), size) << "kind " << kind;
    } else {  // a newer library may have added to their ends
      EXPECT_GE(size_of(kind), size) << "kind " << kind;
    }
  }
}
#endif

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

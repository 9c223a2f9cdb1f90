// SPDX-License-Identifier: Apache-2.0

// The real libcudnn compiles a plan of attention for each model of the table and each number of
// ranks that may share it, for compute capability 9.0. No GPU is needed. What only a GPU can show
// is in cuda_attention_test.cc.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/bf16.h"
#include "kernels/cuda/cudnn/cudnn_attention.h"
#include "kernels/cuda/cudnn/cudnn_library.h"
#include "kernels/cuda/cudnn/sdpa_plan.h"
#include "proto/spec/presets.h"

namespace stretto::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION of an H200.
constexpr char kH200[] =
    R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
    R"("regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,)"
    R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)"
    R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,)"
    R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,)"
    R"("supportCoopLaunch":1,"totalGlobalMem":150754820096,"smClockRateKHz":1980000,)"
    R"("memClockRateKHz":3201000,"l2CacheSize":62914560,"cudaDeviceId":0,"deviceVer":900,)"
    R"("driverVer":13000,"deviceName":"NVIDIA H200"})";
constexpr int64_t kRoom = int64_t{64} << 30;
constexpr int kMostRanks = 8;
constexpr AttentionShape kShape{.sequence_length = 64, .heads = 4, .kv_heads = 2, .head_dim = 64};

absl::StatusOr<SdpaPlan> PlanOf(const SdpaPass& pass, int64_t room = kRoom) {
  return SdpaPlan::Make({.capability = 90, .properties = kH200}, pass, room);
}

class CudnnPlansTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // The frontend and cuDNN find it by its name, as they would find a driver.
    ASSERT_NE(dlopen(DRIVER_STUB, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    library_ = new absl::StatusOr<CudnnLibrary>(CudnnLibrary::Open("libcudnn.so.9"));
    if (library_->ok()) std::cout << "cuDNN " << CudnnVersionText((*library_)->version) << "\n";
  }
  void SetUp() override {
    if (!library_->ok()) GTEST_SKIP() << library_->status();
  }

  static absl::StatusOr<CudnnLibrary>* library_;
};
absl::StatusOr<CudnnLibrary>* CudnnPlansTest::library_ = nullptr;

// Also that what programs plan is what plans need.
TEST_F(CudnnPlansTest, EveryModelOnUpToEightRanksHasItsPlans) {
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> done;
  int plans = 0;
  for (const ModelPreset& preset : kModelPresets) {
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      if (preset.kv_heads % ranks != 0) continue;
      const AttentionShape shape{.sequence_length = preset.sequence_length,
                                 .heads = preset.heads / ranks,
                                 .kv_heads = preset.kv_heads / ranks,
                                 .head_dim = preset.hidden / preset.heads};
      if (!done.insert({shape.sequence_length, shape.heads, shape.kv_heads, shape.head_dim}).second)
        continue;
      SCOPED_TRACE(absl::StrCat(preset.name, " on ", ranks, " ranks"));
      const int64_t sequences = LibrarySequences(shape);
      const absl::StatusOr<SdpaPlan> forward =
          PlanOf({.shape = shape, .sequences = sequences}, int64_t{kCudaWorkspaceBytes});
      EXPECT_TRUE(forward.ok()) << forward.status();
      for (const bool repeatable : {false, true}) {
        const int64_t several = repeatable ? 1 : sequences;
        const int64_t planned = LibraryScratchBytes(shape, repeatable, several);
        const absl::StatusOr<SdpaPlan> backward = PlanOf(
            {.shape = shape, .backward = true, .repeatable = repeatable, .sequences = several},
            planned);
        ASSERT_TRUE(backward.ok()) << repeatable << " " << backward.status();
        EXPECT_GT(2 * backward->workspace_bytes(), planned) << repeatable;
      }
      plans += 3;
    }
  }
  std::cout << plans << " plans of " << done.size() << " shapes\n";
}

// A forward pass of a step has no gradients, and its launch fails here for want of a device only.
TEST_F(CudnnPlansTest, ForwardTakesNoGradients) {
  const absl::StatusOr<SdpaPlan> plan = PlanOf({.shape = kShape});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<BF16> rows(static_cast<size_t>(kShape.sequence_length * kShape.qkv_columns()));
  const auto tensor = [&](DType dtype, int64_t columns) {
    return TensorView{.data = rows.data(),
                      .dtype = dtype,
                      .shape = {kShape.sequence_length, columns, 1, 1},
                      .rank = 2};
  };
  const absl::Status status = plan->Run(nullptr,
                                        {.qkv = tensor(DType::kBF16, kShape.qkv_columns()),
                                         .context = tensor(DType::kBF16, kShape.context_columns()),
                                         .lse = tensor(DType::kF32, kShape.heads)},
                                        rows.data());
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(CudnnPlansTest, TooLittleWorkspaceIsNamed) {
  const absl::StatusOr<SdpaPlan> plan = PlanOf({.shape = kShape, .backward = true}, 1000);
  EXPECT_TRUE(absl::IsResourceExhausted(plan.status())) << plan.status();
  EXPECT_THAT(plan.status().ToString(),
              AllOf(HasSubstr("cuDNN needs "), HasSubstr(" bytes of workspace, there are 1000")));
}

TEST_F(CudnnPlansTest, WhatIsNotSupportedIsNamed) {
  AttentionShape shape = kShape;
  shape.head_dim = 12;
  for (const bool backward : {false, true}) {
    const absl::StatusOr<SdpaPlan> plan = PlanOf({.shape = shape, .backward = backward});
    EXPECT_TRUE(absl::IsUnimplemented(plan.status())) << plan.status();
  }
}

TEST_F(CudnnPlansTest, ADeviceThatCudnnDoesNotUnderstandIsAStatus) {
  const absl::StatusOr<SdpaPlan> plan =
      SdpaPlan::Make({.capability = 90, .properties = "{}"}, {.shape = kShape}, kRoom);
  EXPECT_TRUE(absl::IsUnavailable(plan.status())) << plan.status();
}

TEST_F(CudnnPlansTest, AMachineWithoutADeviceHasNoHandle) {
  const auto handle = (*library_)->MakeHandle(nullptr);
  EXPECT_TRUE(absl::IsUnavailable(handle.status())) << handle.status();
  EXPECT_THAT(handle.status().ToString(), HasSubstr("cudnnCreate: CUDNN_STATUS_"));
  const auto attention = MakeCudnnAttention({});
  EXPECT_TRUE(absl::IsUnavailable(attention.status())) << attention.status();
}

TEST_F(CudnnPlansTest, AProcessHasOneLibrary) {
  EXPECT_TRUE(CudnnLibrary::Open("libcudnn.so.9").ok());
  EXPECT_THAT(CudnnLibrary::Open(OTHER_CUDNN).status().ToString(),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr(OTHER_CUDNN),
                    HasSubstr("found another one open in this process")));
}

TEST(CudnnLibraryTest, AMissingLibraryIsNamed) {
  const auto attention = MakeCudnnAttention({.library = "libno_such_cudnn.so.9"});
  EXPECT_THAT(attention.status().ToString(),
              AllOf(HasSubstr("NOT_FOUND: cannot open cuDNN"), HasSubstr("libno_such_cudnn.so.9")));
}

TEST(CudnnLibraryTest, AMissingFunctionIsNamed) {
  EXPECT_THAT(CudnnVersion(DRIVER_STUB).status().ToString(),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("has no function cudnnGetVersion"),
                    HasSubstr("expected one of version 9.16.0")));
}

TEST(CudnnLibraryTest, AnotherVersionIsRefused) {
  EXPECT_THAT(CudnnVersion(OLD_CUDNN).status().ToString(),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("is version 9.15.0"),
                    HasSubstr("expected 9.16.0 or a newer 9.x")));
}

}  // namespace
}  // namespace stretto::cuda

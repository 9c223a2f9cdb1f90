// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_choice/attention_trial.h"

#include <cuda_runtime.h>

#include "kernels/cuda/cuda_ops.h"
#include "tests/kernels/testing.h"

namespace stretto::cuda {
namespace {

using testing::HasSubstr;

constexpr AttentionShape kShape{
    .sequence_length = 20, .heads = 2, .kv_heads = 1, .head_dim = 8, .library_scratch = 500};

// Our own kernels as a library, whose results `spoil` may change.
class AttentionTrialTest : public testing::TestWithParam<bool> {
 protected:
  absl::StatusOr<AttentionTimes> Try(
      const std::function<void(const AttentionTensors&)>& spoil = {}) {
    const Trial trial{
        .shape = kShape, .backward = GetParam(), .repeatable = repeatable_, .sequences = 3};
    return TryAttention(trial, *own_, [&](const AttentionTensors& t) {
      Tensor scratch(DType::kF32, 1, AttentionScratch(kShape, t.qkv.rows()));
      if (GetParam()) {
        own_->AttentionGrad(kShape, {}, {}, {}, t.dcontext, t.qkv, t.context, t.lse, t.dqkv,
                            scratch.view());
      } else {
        own_->Attention(kShape, {}, {}, {}, t.qkv, t.context, t.lse, scratch.view());
      }
      if (spoil) spoil(t);
      return absl::OkStatus();
    });
  }
  BF16* Result(const AttentionTensors& t) { return (GetParam() ? t.dqkv : t.context).as<BF16>(); }
  void Scale(BF16* value, float factor) { *value = ToBF16(ToFloat(*value) * factor); }

  bool repeatable_ = true;
  std::vector<std::byte> workspace_ = std::vector<std::byte>(kCudaWorkspaceBytes);
  const std::unique_ptr<CudaOps> own_ =
      MakeCudaOps({.sm_count = 2, .workspace = workspace_.data()});
};
INSTANTIATE_TEST_SUITE_P(Directions, AttentionTrialTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Backward" : "Forward"; });

TEST_P(AttentionTrialTest, TheSameNumbersAreTimed) {
  const absl::StatusOr<AttentionTimes> times = Try();
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_GT(times->own, 0);
  EXPECT_GT(times->library, 0);
  EXPECT_EQ(cuda_emulator::Leaks(), 0);
}

TEST_P(AttentionTrialTest, OneRowThatIsWrongShows) {
  const int64_t row = 17, columns = GetParam() ? kShape.qkv_columns() : kShape.context_columns();
  const auto times = Try([&](const AttentionTensors& t) {
    for (int64_t i = 0; i < columns; ++i) Scale(Result(t) + row * columns + i, 1.2f);
  });
  EXPECT_THAT(times.status().ToString(), HasSubstr("differ from our kernels'"));
}

TEST_P(AttentionTrialTest, NanShows) {
  const auto times = Try([&](const AttentionTensors& t) { *Result(t) = ToBF16(NAN); });
  EXPECT_THAT(times.status().ToString(), HasSubstr("differ from our kernels'"));
}

TEST_P(AttentionTrialTest, BitsThatVaryShow) {
  int calls = 0;
  const auto times =
      Try([&](const AttentionTensors& t) { Scale(Result(t) + 30, ++calls == 1 ? 1 : 1.01f); });
  EXPECT_THAT(times.status().ToString(), HasSubstr("its bits vary between runs"));
}

TEST_P(AttentionTrialTest, BitsThatDependOnTheBatchShow) {
  const auto times = Try([&](const AttentionTensors& t) {
    Scale(Result(t) + 30, t.qkv.rows() > kShape.sequence_length ? 1 : 1.01f);
  });
  EXPECT_THAT(times.status().ToString(), HasSubstr("depend on the number of sequences"));
}

TEST_P(AttentionTrialTest, BitsMayVaryWhereNobodyNeedsThem) {
  repeatable_ = false;
  int calls = 0;
  const auto times =
      Try([&](const AttentionTensors& t) { Scale(Result(t) + 30, ++calls == 1 ? 1 : 1.01f); });
  EXPECT_TRUE(times.ok()) << times.status();
}

TEST_P(AttentionTrialTest, NumbersThatAreWrongTheSecondTimeShow) {
  repeatable_ = false;
  int calls = 0;
  const auto times = Try([&](const AttentionTensors& t) {
    if (++calls == 2) *Result(t) = ToBF16(NAN);
  });
  EXPECT_THAT(times.status().ToString(), HasSubstr("differ from our kernels'"));
}

// Forward has none: its plans have memory of their own.
TEST_P(AttentionTrialTest, GradientsHaveScratch) {
  const auto times = Try([&](const AttentionTensors& t) {
    EXPECT_EQ(t.scratch.data != nullptr, GetParam());
    if (GetParam()) {
      EXPECT_EQ(t.scratch.count(), AttentionScratch(kShape, 3 * 20));
    }
  });
  EXPECT_TRUE(times.ok()) << times.status();
}

TEST_P(AttentionTrialTest, ALibraryThatFailsIsItsStatus) {
  const Trial trial{.shape = kShape, .backward = GetParam()};
  const auto times = TryAttention(trial, *own_, [](const AttentionTensors&) {
    return absl::UnavailableError("launch failed");
  });
  EXPECT_EQ(times.status(), absl::UnavailableError("launch failed"));
}

TEST_P(AttentionTrialTest, NoMemoryIsResourceExhausted) {
  cuda_emulator::SetMemory(1000);
  EXPECT_TRUE(absl::IsResourceExhausted(Try().status()));
  cuda_emulator::Reset();
}

}  // namespace
}  // namespace stretto::cuda

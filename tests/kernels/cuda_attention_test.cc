// SPDX-License-Identifier: Apache-2.0

// What only cuDNN on a GPU can show of attention.
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cudnn/cudnn_attention.h"
#include "tests/kernels/attention_batch.h"
#include "tests/kernels/cuda_device.h"

namespace stretto {
namespace {

// By whether gradients must have the same bits in every run.
class CudaAttentionTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<FusedAttention>> made = MakeCudnnAttention(Options());
    if (!made.ok()) GTEST_SKIP() << made.status();
    attention_ = *std::move(made);
  }
  CudnnAttentionOptions Options() {
    return {.stream = device_.stream(),
            .sm_count = device_.sm_count(),
            .workspace = device_.workspace(),
            .tunings = &tunings_,
            .repeatable = GetParam(),
            .report = [this](absl::string_view text) { absl::StrAppend(&reports_, text, "\n"); }};
  }
  cuda::AttentionKey KeyOf(const AttentionShape& shape, bool backward) {
    return {.length = shape.sequence_length,
            .heads = shape.heads,
            .kv_heads = shape.kv_heads,
            .head_dim = shape.head_dim,
            .backward = backward,
            .repeatable = backward && GetParam(),
            .library_version = *CudnnVersion(Options().library)};
  }
  // The sequences of a launch whose results do not depend on their number.
  static int64_t TogetherOf(const AttentionShape& shape, bool backward) {
    return backward && GetParam() ? 1 : LibrarySequences(shape);
  }
  std::vector<unsigned char> BitsOf(AttentionBatch& batch, int64_t sequences_per_call) {
    const auto ops = device_.Ops(0, attention_.get());
    const int64_t sequences = batch.rows / batch.shape.sequence_length;
    for (int64_t at = 0; at < sequences; at += sequences_per_call)
      batch.Run(*ops, at, std::min(sequences_per_call, sequences - at));
    device_.Wait();
    EXPECT_STREQ(ops->error(), "");
    return batch.Bits();
  }

  CudaDevice& device_ = CudaDevice::Get();  // before any tensor
  cuda::Tunings tunings_ = device_.EmptyTunings();
  std::string reports_;
  std::unique_ptr<FusedAttention> attention_;
};

INSTANTIATE_TEST_SUITE_P(Repeatable, CudaAttentionTest, testing::Bool());

// The trial finds nothing wrong with cuDNN, whoever is the faster, nor with launches of several
// sequences, which it would otherwise give one sequence each.
TEST_P(CudaAttentionTest, TrialsEndInTimes) {
  for (const int64_t head_dim : {64, 80, 96, 128}) {
    for (const int64_t kv_heads : {8, 2}) {
      AttentionShape shape{
          .sequence_length = 1000, .heads = 8, .kv_heads = kv_heads, .head_dim = head_dim};
      shape.library_scratch = LibraryScratch(shape, GetParam());
      AttentionBatch batch(DType::kBF16, shape, {}, 2);
      BitsOf(batch, 2);
      for (const bool backward : {false, true}) {
        const cuda::AttentionTimes* times = tunings_.Find(KeyOf(shape, backward));
        ASSERT_NE(times, nullptr) << head_dim << " " << kv_heads << " " << backward << reports_;
        EXPECT_EQ(times->together, TogetherOf(shape, backward)) << head_dim << " " << reports_;
      }
    }
  }
  EXPECT_NE(tunings_.Print().find("end 16"), std::string::npos) << reports_;
}

TEST_P(CudaAttentionTest, CudnnsNumbersAreOursAndSlicesGiveTheBitsOfTheWhole) {
  for (const int64_t kv_heads : {8, 2}) {
    AttentionShape shape{.sequence_length = 512, .heads = 8, .kv_heads = kv_heads, .head_dim = 128};
    shape.library_scratch = LibraryScratch(shape, GetParam());
    for (const bool backward : {false, true}) {
      tunings_.Put(KeyOf(shape, backward),
                   {.own = 2, .library = 1, .together = TogetherOf(shape, backward)});
    }
    AttentionBatch own(DType::kBF16, shape, {}, 4), whole = own, again = own, sliced = own;
    own.Run(*device_.Ops(0));
    device_.Wait();
    const auto bits = BitsOf(whole, 4), bits_again = BitsOf(again, 4),
               of_slices = BitsOf(sliced, 1);
    ExpectNear(whole.context, own.context.doubles(), 1.0 / 256);
    ExpectNear(whole.lse, own.lse.doubles(), 1e-4);
    for (const AttentionBatch* batch : {&whole, &again, &sliced}) {
      ExpectNear(batch->dqkv, own.dqkv.doubles(), 1.0 / 128);
      EXPECT_EQ(batch->context.bytes(), whole.context.bytes());
      EXPECT_EQ(batch->lse.bytes(), whole.lse.bytes());
    }
    if (!GetParam()) continue;
    EXPECT_EQ(bits_again, bits);
    EXPECT_EQ(of_slices, bits);
  }
  EXPECT_EQ(reports_.find("our kernels:"), std::string::npos) << reports_;
}

}  // namespace
}  // namespace stretto

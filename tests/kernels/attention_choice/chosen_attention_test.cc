// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_choice/chosen_attention.h"

#include <cuda_runtime.h>

#include "tests/kernels/attention_batch.h"

namespace stretto::cuda {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Bits = std::vector<unsigned char>;

constexpr AttentionShape kPairs{
    .sequence_length = 21, .heads = 2, .kv_heads = 2, .head_dim = 8, .library_scratch = 2000};
constexpr AttentionShape kGroups{
    .sequence_length = 33, .heads = 6, .kv_heads = 2, .head_dim = 64, .library_scratch = 9000};
constexpr Dropout kQuarter{.threshold = int64_t{1} << 30, .site = 6};

// What the library of a test does.
struct Behaviour {
  bool forward = true, backward = true;  // has such plans
  float factor = 1;                      // of its results
  bool vary = false;                     // the bits of every second run differ
  bool mix = false;                      // those of several sequences in a launch differ
  int executions = 1 << 20;              // launches until they fail
  int computes = 1 << 20;                // launches in a direction until they take no time
};
struct Counts {
  int plans = 0, forward = 0, backward = 0;
  int64_t scratch = 0;                 // of the last backward pass
  std::vector<int64_t> together = {};  // that plans were asked for
};

// A library that computes with our own kernels.
class OwnPlan final : public AttentionPlan {
 public:
  OwnPlan(const AttentionShape& shape, bool backward, int64_t together,
          const CudaOpsOptions& options, Behaviour& behaviour, Counts& counts)
      : shape_(shape),
        backward_(backward),
        together_(together),
        ops_(MakeCudaOps(options)),
        behaviour_(behaviour),
        counts_(counts) {}

  absl::Status Run(const AttentionTensors& t) override {
    if (--behaviour_.executions < 0) return absl::UnavailableError("the library fails");
    const int runs = ++(backward_ ? counts_.backward : counts_.forward);
    if (runs > behaviour_.computes) return absl::OkStatus();
    Tensor scratch(DType::kF32, 1, AttentionScratch(shape_, t.qkv.rows()));
    if (backward_) {
      ops_->AttentionGrad(shape_, {}, {}, {}, t.dcontext, t.qkv, t.context, t.lse, t.dqkv,
                          scratch.view());
      counts_.scratch = t.scratch.count();
    } else {
      ops_->Attention(shape_, {}, {}, {}, t.qkv, t.context, t.lse, scratch.view());
    }
    cudaDeviceSynchronize();
    BF16* const first = (backward_ ? t.dqkv : t.context).as<BF16>();
    const float varied = behaviour_.vary && runs % 2 == 0 ? 1.01f : 1;
    const bool several = together_ > 1 && t.qkv.rows() > shape_.sequence_length;
    const float factor = behaviour_.factor * varied * (behaviour_.mix && several ? 1.01f : 1);
    for (int i = 0; i < 100; ++i) first[i] = ToBF16(ToFloat(first[i]) * factor);
    return absl::OkStatus();
  }

 private:
  const AttentionShape shape_;
  const bool backward_;
  const int64_t together_;
  const std::unique_ptr<CudaOps> ops_;
  Behaviour& behaviour_;
  Counts& counts_;
};

class ChosenAttentionTest : public testing::Test {
 protected:
  ChosenAttentionTest() {
    cuda_emulator::Reset();
    const auto at = (reinterpret_cast<uintptr_t>(memory_.data()) + 255) & ~uintptr_t{255};
    workspace_ = reinterpret_cast<void*>(at);
  }
  ~ChosenAttentionTest() override { EXPECT_EQ(cuda_emulator::Leaks(), 0); }

  ChosenAttentionOptions Options() {
    return {
        .stream = stream_,
        .sm_count = 4,
        .workspace = workspace_,
        .tunings = &tunings_,
        .library = "the library",
        .library_version = 91900,
        .repeatable = true,
        .make_plan = [this](const AttentionShape& shape, bool backward,
                            int64_t together) -> absl::StatusOr<std::unique_ptr<AttentionPlan>> {
          if (!(backward ? behaviour_.backward : behaviour_.forward))
            return absl::UnimplementedError("no such plan");
          ++counts_.plans;
          counts_.together.push_back(together);
          return std::make_unique<OwnPlan>(shape, backward, together, OwnOptions(), behaviour_,
                                           counts_);
        },
        .pinned_tokens = 1,
        .report = [this](absl::string_view text) { reports_.emplace_back(text); }};
  }
  CudaOpsOptions OwnOptions() {
    return {.stream = stream_, .sm_count = 4, .workspace = workspace_};
  }
  std::unique_ptr<FusedAttention> Make() { return MakeChosenAttention(Options()); }
  std::unique_ptr<CudaOps> Ops(FusedAttention* attention) {
    CudaOpsOptions options = OwnOptions();
    options.attention = attention;
    return MakeCudaOps(options);
  }
  // Shapes with these times in the store.
  void Know(const AttentionShape& shape, double own, double library) {
    for (const bool backward : {false, true}) {
      tunings_.Put(AttentionKey{.length = shape.sequence_length,
                                .heads = shape.heads,
                                .kv_heads = shape.kv_heads,
                                .head_dim = shape.head_dim,
                                .backward = backward,
                                .repeatable = backward,
                                .library_version = 91900},
                   AttentionTimes{.own = own, .library = library});
    }
  }
  static AttentionBatch BatchOf(const AttentionShape& shape) {
    return {DType::kBF16, shape, {}, 3};
  }
  Bits OwnBits(const AttentionShape& shape) {
    AttentionBatch batch = BatchOf(shape);
    batch.Run(*Ops(nullptr));
    cudaDeviceSynchronize();
    return batch.Bits();
  }
  // Runs a batch; it must be done by our kernels.
  void ExpectOwn(const ChosenAttentionOptions& options, const std::string& reason) {
    const auto attention = MakeChosenAttention(options);
    AttentionBatch batch = BatchOf(kPairs);
    for (int i = 0; i < 2; ++i) {
      batch.Run(*Ops(attention.get()));
      cudaDeviceSynchronize();
      EXPECT_EQ(batch.Bits(), OwnBits(kPairs));
    }
    // Once for each direction.
    EXPECT_THAT(reports_,
                ElementsAre(AllOf(HasSubstr("forward: our kernels"), HasSubstr(reason)),
                            AllOf(HasSubstr("backward: our kernels"), HasSubstr(reason))));
  }

  Behaviour behaviour_;
  Counts counts_;
  Tunings tunings_ = Tunings("Emulated", 1);
  std::vector<std::byte> memory_ = std::vector<std::byte>(kCudaWorkspaceBytes + 256);
  void* workspace_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<std::string> reports_;
};

TEST_F(ChosenAttentionTest, TheLibraryComputesWithTheScratchOfTheCall) {
  for (const AttentionShape& shape : {kPairs, kGroups}) {
    Know(shape, 2, 1);
    const Counts before = counts_;
    const auto attention = Make();
    AttentionBatch batch = BatchOf(shape);
    batch.Run(*Ops(attention.get()));
    EXPECT_EQ(counts_.forward, before.forward + 1);
    EXPECT_EQ(counts_.backward, before.backward + 1);
    EXPECT_EQ(counts_.scratch, shape.library_scratch);
    EXPECT_EQ(batch.Bits(), OwnBits(shape));
  }
}

TEST_F(ChosenAttentionTest, EverySlicingUsesThePlansOfTheWhole) {
  Know(kGroups, 2, 1);
  const auto attention = Make();
  const auto ops = Ops(attention.get());
  AttentionBatch whole = BatchOf(kGroups);
  whole.Run(*ops);
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 1, 3}, {0, 1, 2, 3}}) {
    AttentionBatch sliced = BatchOf(kGroups);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) sliced.Run(*ops, cuts[i], cuts[i + 1] - cuts[i]);
    EXPECT_EQ(sliced.Bits(), whole.Bits());
  }
  EXPECT_EQ(counts_.plans, 2) << "one for each direction";
}

// kPairs has few heads, so that a launch takes many sequences; kGroups has no stride for them.
TEST_F(ChosenAttentionTest, ALaunchTakesSeveralSequencesWhereOneHasFewHeads) {
  EXPECT_EQ(LibrarySequences(kPairs), 16);
  EXPECT_EQ(LibrarySequences(kGroups), 1);
  AttentionShape shape{.sequence_length = 4096, .heads = 4, .kv_heads = 4, .head_dim = 128};
  EXPECT_EQ(LibrarySequences(shape), 4);
  shape.kv_heads = 1;
  EXPECT_EQ(LibrarySequences(shape), 4);
  shape.heads = 32;
  EXPECT_EQ(LibrarySequences(shape), 1);

  const auto attention = Make();
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(attention.get()));
  EXPECT_THAT(counts_.together, ElementsAre(16, 1)) << "of a repeatable gradient, one";
  EXPECT_THAT(tunings_.Print(), AllOf(HasSubstr("together 16\n"), HasSubstr("together 1\n")));
}

TEST_F(ChosenAttentionTest, SequencesThatDependOnOthersGetLaunchesOfTheirOwn) {
  behaviour_.mix = true;
  const auto attention = Make();
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(attention.get()));
  cudaDeviceSynchronize();
  EXPECT_EQ(batch.Bits(), OwnBits(kPairs));
  EXPECT_THAT(counts_.together, ElementsAre(16, 1, 1));
  EXPECT_THAT(tunings_.Print(), testing::Not(HasSubstr("together 16")));
}

TEST_F(ChosenAttentionTest, WithoutScratchGradientsAreOurs) {
  AttentionShape shape = kPairs;
  shape.library_scratch = 0;
  Know(shape, 2, 1);
  const auto attention = Make();
  AttentionBatch batch = BatchOf(shape);
  batch.Run(*Ops(attention.get()));
  EXPECT_EQ(counts_.forward, 1);
  EXPECT_EQ(counts_.backward, 0);
  EXPECT_EQ(batch.Bits(), OwnBits(shape));
}

TEST_F(ChosenAttentionTest, MeasuresOnceAndStoresWhatItMeasured) {
  const auto attention = Make();
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(attention.get()));
  const std::string text = tunings_.Print();
  EXPECT_THAT(text, AllOf(HasSubstr("attention length 21 heads 2 kv_heads 2 head_dim 8 backward 0 "
                                    "repeatable 0 library 91900"),
                          HasSubstr("backward 1 repeatable 1 library 91900"), HasSubstr("end 2")));
  const int plans = counts_.plans;
  batch.Run(*Ops(attention.get()));
  EXPECT_EQ(counts_.plans, plans);
  EXPECT_EQ(reports_.size(), 2);
  // The same choice in a process that only reads.
  const Bits measured = batch.Bits();
  ChosenAttentionOptions stored = Options();
  stored.tune = false;
  const auto again = MakeChosenAttention(stored);
  batch.Run(*Ops(again.get()));
  EXPECT_EQ(batch.Bits(), measured);
  EXPECT_EQ(tunings_.Print(), text);
}

// A trial compares the results of four launches here. The launches that it times cost nothing.
TEST_F(ChosenAttentionTest, ThePlanOfATrialIsTheOneThatIsUsed) {
  behaviour_.computes = 4;
  const auto attention = Make();
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(attention.get()));
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("forward: the library: "),
                                    HasSubstr("backward: the library: ")));
  EXPECT_EQ(counts_.plans, 2) << "one for each direction";
}

// A choice for gradients that may vary is none for those that must not.
TEST_F(ChosenAttentionTest, RepeatableGradientsAreAChoiceOfTheirOwn) {
  behaviour_.vary = true;
  ChosenAttentionOptions options = Options();
  options.repeatable = false;
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(MakeChosenAttention(options).get()));
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("forward: our kernels: its bits vary between runs"),
                                    HasSubstr("backward: ")));
  EXPECT_THAT(tunings_.Print(), AllOf(HasSubstr("backward 1 repeatable 0"), HasSubstr("end 1")));
  reports_.clear();
  batch.Run(*Ops(Make().get()));
  EXPECT_THAT(reports_, Contains(HasSubstr("backward: our kernels: its bits vary between runs")));
}

TEST_F(ChosenAttentionTest, TheFasterOneIsTaken) {
  Know(kPairs, 100, 98);
  const auto faster = Make();
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(faster.get()));
  EXPECT_EQ(counts_.forward, 1);
  EXPECT_THAT(reports_, Contains(HasSubstr("forward: the library: 98 us, our kernels 100 us")));
  // Within noise ours stay, and nothing is compiled.
  Know(kPairs, 100, 99.5);
  const auto slower = Make();
  const int plans = counts_.plans;
  batch.Run(*Ops(slower.get()));
  EXPECT_EQ(batch.Bits(), OwnBits(kPairs));
  EXPECT_EQ(counts_.plans, plans);
  EXPECT_THAT(reports_, Contains(HasSubstr("forward: our kernels: 100 us, the library 99.5 us")));
}

TEST_F(ChosenAttentionTest, OtherCallsAreNotTaken) {
  Know(kPairs, 2, 1);
  const auto attention = Make();
  const auto ops = Ops(attention.get());
  AttentionBatch dropped(DType::kBF16, kPairs, kQuarter, 1), f32(DType::kF32, kPairs, {}, 1);
  AttentionBatch documents(DType::kBF16, kPairs, {}, 1, {{0, 7}});
  dropped.Run(*ops);
  documents.Run(*ops);
  f32.Run(*ops);
  BatchOf({.sequence_length = 5, .heads = 2, .kv_heads = 1, .head_dim = 4}).Run(*ops);
  Tensor shifted(DType::kBF16, 1, 21 * 48 + 8), context(DType::kBF16, 21, 16);
  Tensor lse(DType::kF32, 2, 21);
  TensorView qkv = shifted.view();
  qkv.data = static_cast<BF16*>(qkv.data) + 4;
  qkv.shape = {21, 48, 1, 1};
  EXPECT_FALSE(attention->Attention(kPairs, qkv, context.view(), lse.view()));
  EXPECT_EQ(counts_.plans, 0);
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(ChosenAttentionTest, WrongNumbersAreNotTaken) {
  behaviour_.factor = 1.5f;
  ExpectOwn(Options(), "differ from our kernels'");
  EXPECT_THAT(tunings_.Print(), HasSubstr("end 0"));
}

TEST_F(ChosenAttentionTest, WhatIsNotSupportedIsLeftToOurKernels) {
  behaviour_.forward = behaviour_.backward = false;
  ExpectOwn(Options(), "no such plan");
}

TEST_F(ChosenAttentionTest, OneDirectionMayBeTakenWithoutTheOther) {
  Know(kPairs, 2, 1);
  behaviour_.backward = false;
  const auto attention = Make();
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(attention.get()));
  EXPECT_EQ(counts_.forward, 1);
  EXPECT_EQ(counts_.backward, 0);
  EXPECT_EQ(batch.Bits(), OwnBits(kPairs));
}

TEST_F(ChosenAttentionTest, ALaunchThatFailsIsDoneAgainByOurKernels) {
  Know(kPairs, 2, 1);
  behaviour_.executions = 0;
  const auto attention = Make();
  for (int i = 0; i < 2; ++i) {
    AttentionBatch batch = BatchOf(kPairs);
    batch.Run(*Ops(attention.get()));
    EXPECT_EQ(batch.Bits(), OwnBits(kPairs));
  }
  const std::string why = "our kernels from now on: the library fails";
  EXPECT_THAT(reports_,
              ElementsAre(HasSubstr("forward: the library: 1 us"), HasSubstr("forward: " + why),
                          HasSubstr("backward: the library: 1 us"), HasSubstr("backward: " + why)));
}

TEST_F(ChosenAttentionTest, ALaunchThatFailsInTheTrialIsNotTaken) {
  behaviour_.executions = 0;
  ExpectOwn(Options(), "the library fails");
}

TEST_F(ChosenAttentionTest, WithoutTuningUnknownShapesStay) {
  ChosenAttentionOptions options = Options();
  options.tune = false;
  ExpectOwn(options, "never measured");
  EXPECT_EQ(counts_.plans, 0);
}

TEST_F(ChosenAttentionTest, WithoutMemoryToTryInShapesStay) {
  cuda_emulator::SetMemory(1000);
  ExpectOwn(Options(), "cudaMalloc: cudaErrorMemoryAllocation");
}

TEST_F(ChosenAttentionTest, NothingIsDecidedInACapture) {
  Know(kPairs, 2, 1);
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
  {
    const auto attention = Make();
    const auto ops = Ops(attention.get());
    AttentionBatch batch = BatchOf(kPairs);
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    batch.Run(*ops);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_THAT(reports_, ElementsAre(HasSubstr("first met while its stream was captured"),
                                      HasSubstr("first met while its stream was captured")));
    EXPECT_EQ(counts_.plans, 0);
    cudaGraphDestroy(graph);
  }
  cudaStreamDestroy(stream_);
}

}  // namespace
}  // namespace stretto::cuda

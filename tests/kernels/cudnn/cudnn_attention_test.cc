// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn/cudnn_attention.h"

#include <cuda_runtime.h>

#include "tests/kernels/attention_batch.h"
#include "tests/kernels/cudnn/fake_cudnn/fake_cudnn.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Bits = std::vector<unsigned char>;

constexpr AttentionShape kTiled{.sequence_length = 70, .heads = 2, .kv_heads = 2, .head_dim = 64};
constexpr AttentionShape kPairs{.sequence_length = 21, .heads = 2, .kv_heads = 2, .head_dim = 8};
constexpr AttentionShape kGroups{.sequence_length = 33, .heads = 6, .kv_heads = 2, .head_dim = 64};
constexpr Dropout kQuarter{.threshold = int64_t{1} << 30, .site = 6};

class CudnnAttentionTest : public testing::Test {
 protected:
  CudnnAttentionTest() {
    cuda_emulator::Reset();
    fake_cudnn::Reset([](cudaStream_t stream, std::function<void()> work) {
      EXPECT_EQ(cuda_emulator::Enqueue(stream, std::move(work)), cudaSuccess);
    });
    const auto at = (reinterpret_cast<uintptr_t>(memory_.data()) + 255) & ~uintptr_t{255};
    workspace_ = reinterpret_cast<void*>(at);
  }
  ~CudnnAttentionTest() override {
    EXPECT_EQ(fake_cudnn::Live(), 0);
    EXPECT_EQ(cuda_emulator::Leaks(), 0);
  }

  CudnnAttentionOptions Options() {
    return {.stream = stream_,
            .sm_count = 4,
            .workspace = workspace_,
            .workspace_bytes = static_cast<int64_t>(kCudaWorkspaceBytes),
            .tunings = &tunings_,
            .library = FAKE_CUDNN,
            .pinned_tokens = 1,
            .report = [this](absl::string_view text) { reports_.emplace_back(text); }};
  }
  std::unique_ptr<FusedAttention> Make(const CudnnAttentionOptions& options) {
    auto made = MakeCudnnAttention(options);
    STRETTO_CHECK(made.ok());
    return *std::move(made);
  }
  std::unique_ptr<FusedAttention> Make() { return Make(Options()); }
  // The status and its code.
  std::string ErrorOf(const CudnnAttentionOptions& options) {
    return MakeCudnnAttention(options).status().ToString();
  }
  std::unique_ptr<CudaOps> Ops(FusedAttention* attention) {
    return MakeCudaOps(
        {.stream = stream_, .sm_count = 4, .workspace = workspace_, .attention = attention});
  }
  // Shapes with these times in the store.
  void Know(const AttentionShape& shape, double own, double library) {
    for (const bool backward : {false, true}) {
      tunings_.Put(cuda::AttentionKey{.length = shape.sequence_length,
                                      .heads = shape.heads,
                                      .kv_heads = shape.kv_heads,
                                      .head_dim = shape.head_dim,
                                      .backward = backward,
                                      .library_version = 91900},
                   cuda::AttentionTimes{.own = own, .library = library});
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
  void ExpectOwn(const CudnnAttentionOptions& options, const std::string& reason) {
    const auto attention = Make(options);
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

  cuda::Tunings tunings_ = cuda::Tunings("Emulated", 1);
  std::vector<std::byte> memory_ = std::vector<std::byte>(kCudaWorkspaceBytes + 256);
  void* workspace_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<std::string> reports_;
};

TEST_F(CudnnAttentionTest, NumbersAreThoseOfOurKernels) {
  for (const AttentionShape& shape : {kTiled, kPairs, kGroups}) {
    Know(shape, 2, 1);
    AttentionBatch own = BatchOf(shape), fused = BatchOf(shape);
    own.Run(*Ops(nullptr));
    fake_cudnn::Counts before = fake_cudnn::CountsSoFar();
    const auto attention = Make();
    fused.Run(*Ops(attention.get()));
    EXPECT_EQ(fake_cudnn::CountsSoFar().forward - before.forward, 3);
    EXPECT_EQ(fake_cudnn::CountsSoFar().backward - before.backward, 3);
    ExpectNear(fused.context, own.context.doubles(), 1.0 / 256);
    ExpectNear(fused.lse, own.lse.doubles());
    ExpectNear(fused.dqkv, own.dqkv.doubles(), 1.0 / 128);
  }
}

TEST_F(CudnnAttentionTest, EverySlicingGivesTheBitsOfTheWhole) {
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
  EXPECT_EQ(fake_cudnn::CountsSoFar().plans, 2) << "one for each direction";
}

TEST_F(CudnnAttentionTest, AnSmLimitChangesNoBit) {
  Know(kPairs, 2, 1);
  const auto attention = Make();
  const auto ops = Ops(attention.get());
  AttentionBatch all = BatchOf(kPairs), limited = BatchOf(kPairs);
  all.Run(*ops);
  ops->LimitSms(2);
  limited.Run(*ops);
  EXPECT_EQ(limited.Bits(), all.Bits());
}

TEST_F(CudnnAttentionTest, LittleWorkspaceTakesMoreLaunchesAndGivesTheSameBits) {
  Know(kGroups, 2, 1);
  const auto bits = [&](int64_t workspace_bytes) {
    CudnnAttentionOptions options = Options();
    options.workspace_bytes = workspace_bytes;
    const auto attention = Make(options);
    AttentionBatch batch = BatchOf(kGroups);
    batch.Run(*Ops(attention.get()));
    return batch.Bits();
  };
  // One of two key/value heads: 3 x 33^2 scores and 3 x 33 row sums.
  const Bits all = bits(static_cast<int64_t>(kCudaWorkspaceBytes));
  EXPECT_EQ(fake_cudnn::CountsSoFar().backward, 3);
  EXPECT_EQ(bits(2 * 3 * 33 * 33 + 512), all);
  EXPECT_EQ(fake_cudnn::CountsSoFar().backward, 3 + 6);
}

TEST_F(CudnnAttentionTest, MeasuresOnceAndStoresWhatItMeasured) {
  const auto attention = Make();
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(attention.get()));
  const std::string text = tunings_.Print();
  EXPECT_THAT(text, AllOf(HasSubstr("attention length 21 heads 2 kv_heads 2 head_dim 8 backward 0"),
                          HasSubstr("backward 1 library 91900"), HasSubstr("end 2")));
  const int plans = fake_cudnn::CountsSoFar().plans;
  batch.Run(*Ops(attention.get()));
  EXPECT_EQ(fake_cudnn::CountsSoFar().plans, plans);
  EXPECT_EQ(reports_.size(), 2);
  // The same choice in a process that only reads.
  const Bits measured = batch.Bits();
  CudnnAttentionOptions stored = Options();
  stored.tune = false;
  const auto again = Make(stored);
  batch.Run(*Ops(again.get()));
  EXPECT_EQ(batch.Bits(), measured);
  EXPECT_EQ(tunings_.Print(), text);
}

TEST_F(CudnnAttentionTest, TheFasterOneIsTaken) {
  Know(kPairs, 100, 98);
  const auto faster = Make();
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(faster.get()));
  EXPECT_EQ(fake_cudnn::CountsSoFar().forward, 3);
  EXPECT_THAT(reports_, Contains(HasSubstr("forward: cuDNN: 98 us, our kernels 100 us")));
  // Within noise ours stay, and nothing is compiled.
  Know(kPairs, 100, 99.5);
  const auto slower = Make();
  const int plans = fake_cudnn::CountsSoFar().plans;
  batch.Run(*Ops(slower.get()));
  EXPECT_EQ(batch.Bits(), OwnBits(kPairs));
  EXPECT_EQ(fake_cudnn::CountsSoFar().plans, plans);
  EXPECT_THAT(reports_, Contains(HasSubstr("forward: our kernels: 100 us, cuDNN 99.5 us")));
}

TEST_F(CudnnAttentionTest, OtherCallsAreNotTaken) {
  Know(kPairs, 2, 1);
  const auto attention = Make();
  const auto ops = Ops(attention.get());
  AttentionBatch dropped(DType::kBF16, kPairs, kQuarter, 1), f32(DType::kF32, kPairs, {}, 1);
  dropped.Run(*ops);
  f32.Run(*ops);
  BatchOf({.sequence_length = 5, .heads = 2, .kv_heads = 1, .head_dim = 4}).Run(*ops);
  Tensor shifted(DType::kBF16, 1, 21 * 48 + 8), context(DType::kBF16, 21, 16);
  Tensor lse(DType::kF32, 21, 2);
  TensorView qkv = shifted.view();
  qkv.data = static_cast<BF16*>(qkv.data) + 4;
  qkv.shape = {21, 48, 1, 1};
  EXPECT_FALSE(attention->Attention(kPairs, qkv, context.view(), lse.view()));
  EXPECT_EQ(fake_cudnn::CountsSoFar().plans, 0);
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(CudnnAttentionTest, WrongNumbersAreNotTaken) {
  fake_cudnn::Set({.engines = {{}}, .factor = 1.1f});
  ExpectOwn(Options(), "differ from our kernels'");
  EXPECT_THAT(tunings_.Print(), HasSubstr("end 0"));
}

TEST_F(CudnnAttentionTest, WrongLogsAreNotTaken) {
  fake_cudnn::Set({.engines = {{}}, .log_offset = 0.1f});
  const auto attention = Make();
  BatchOf(kPairs).Run(*Ops(attention.get()));
  EXPECT_THAT(reports_[0], HasSubstr("our kernels: its logs of the denominator differ"));
}

TEST_F(CudnnAttentionTest, BitsThatVaryAreNotTaken) {
  fake_cudnn::Set({.engines = {{}}, .bits_vary = true});
  ExpectOwn(Options(), "its bits vary between runs");
}

TEST_F(CudnnAttentionTest, AnEngineThatSaysItsNumbersVaryIsNotTaken) {
  fake_cudnn::Set({.engines = {{.varies = true}}});
  ExpectOwn(Options(), "the numbers of cuDNN's engine vary between runs");
}

TEST_F(CudnnAttentionTest, WhatIsNotSupportedIsLeftToOurKernels) {
  fake_cudnn::Set({.forward = false, .backward = false, .engines = {{}}});
  ExpectOwn(Options(), "CUDNN_STATUS_NOT_SUPPORTED: the fake has no such graph");
}

TEST_F(CudnnAttentionTest, OneDirectionMayBeTakenWithoutTheOther) {
  Know(kPairs, 2, 1);
  fake_cudnn::Set({.backward = false, .engines = {{}}});
  const auto attention = Make();
  AttentionBatch batch = BatchOf(kPairs), own = BatchOf(kPairs);
  batch.Run(*Ops(attention.get()));
  own.Run(*Ops(nullptr));
  EXPECT_EQ(fake_cudnn::CountsSoFar().forward, 3);
  EXPECT_EQ(fake_cudnn::CountsSoFar().backward, 0);
  ExpectNear(batch.dqkv, own.dqkv.doubles(), 1.0 / 128);
}

TEST_F(CudnnAttentionTest, NoEngineIsNoAttention) {
  fake_cudnn::Set({.engines = {}});
  ExpectOwn(Options(), "cuDNN proposes no engine");
}

TEST_F(CudnnAttentionTest, EnginesAreTriedInTheirOrder) {
  Know(kPairs, 2, 1);
  fake_cudnn::Set({.engines = {{.compiles = false}, {.varies = true}, {}}});
  const auto attention = Make();
  BatchOf(kPairs).Run(*Ops(attention.get()));
  EXPECT_EQ(fake_cudnn::CountsSoFar().forward, 3);
}

TEST_F(CudnnAttentionTest, WhatDoesNotCompileIsLeftToOurKernels) {
  fake_cudnn::Set({.engines = {{.compiles = false}}});
  ExpectOwn(Options(), "the fake does not compile it");
}

TEST_F(CudnnAttentionTest, TooLittleWorkspaceIsNamed) {
  Know(kPairs, 2, 1);
  CudnnAttentionOptions options = Options();
  options.workspace_bytes = 600;
  const auto attention = Make(options);
  AttentionBatch batch = BatchOf(kPairs);
  batch.Run(*Ops(attention.get()));
  // Of one head: 21 row sums in 256 bytes, and 21 x 21 scores.
  EXPECT_THAT(reports_, Contains(HasSubstr("backward: our kernels: cuDNN needs 1138 bytes of "
                                           "workspace, there are 600")));
  EXPECT_EQ(fake_cudnn::CountsSoFar().backward, 0);
}

TEST_F(CudnnAttentionTest, ALaunchThatFailsIsDoneAgainByOurKernels) {
  Know(kPairs, 2, 1);
  fake_cudnn::Set({.engines = {{}}, .executions = 1});
  const auto attention = Make();
  for (int i = 0; i < 2; ++i) {
    AttentionBatch batch = BatchOf(kPairs);
    batch.Run(*Ops(attention.get()));
    EXPECT_EQ(batch.Bits(), OwnBits(kPairs));
  }
  const std::string why =
      "our kernels from now on: cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED: the fake fails";
  EXPECT_THAT(reports_,
              ElementsAre(HasSubstr("forward: cuDNN: 1 us"), HasSubstr("forward: " + why),
                          HasSubstr("backward: cuDNN: 1 us"), HasSubstr("backward: " + why)));
}

TEST_F(CudnnAttentionTest, ALaunchThatFailsInTheTrialIsNotTaken) {
  fake_cudnn::Set({.engines = {{}}, .executions = 0});
  ExpectOwn(Options(), "cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED: the fake fails");
}

TEST_F(CudnnAttentionTest, WithoutTuningUnknownShapesStay) {
  CudnnAttentionOptions options = Options();
  options.tune = false;
  ExpectOwn(options, "never measured");
  EXPECT_EQ(fake_cudnn::CountsSoFar().plans, 0);
}

TEST_F(CudnnAttentionTest, WithoutMemoryToTryInShapesStay) {
  cuda_emulator::SetMemory(1000);
  ExpectOwn(Options(), "cudaMalloc: cudaErrorMemoryAllocation");
}

TEST_F(CudnnAttentionTest, NothingIsDecidedInACapture) {
  Know(kPairs, 2, 1);
  ASSERT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
  const auto attention = Make();
  const auto ops = Ops(attention.get());
  AttentionBatch batch = BatchOf(kPairs);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  Tensor keys = KeysOf(1, 2, 3, 4), scratch(DType::kF32, 1, AttentionScratch(kPairs, batch.rows));
  ops->Attention(kPairs, {}, {}, batch.qkv.view(), batch.context.view(), batch.lse.view(),
                 scratch.view());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_THAT(reports_, ElementsAre(HasSubstr("first met while its stream was captured")));
  EXPECT_EQ(fake_cudnn::CountsSoFar().plans, 0);
  // What was decided before is captured.
  ops->AttentionGrad(kPairs, {}, {}, batch.dcontext.view(), batch.qkv.view(), batch.context.view(),
                     batch.lse.view(), batch.dqkv.view(), scratch.view());
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  const int launches = fake_cudnn::CountsSoFar().backward;
  EXPECT_EQ(launches, 3);
  cudaGraphDestroy(graph);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ops->AttentionGrad(kPairs, {}, {}, batch.dcontext.view(), batch.qkv.view(), batch.context.view(),
                     batch.lse.view(), batch.dqkv.view(), scratch.view());
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(fake_cudnn::CountsSoFar().backward, launches + 3);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream_);
}

TEST_F(CudnnAttentionTest, AMissingLibraryIsNamed) {
  CudnnAttentionOptions options = Options();
  options.library = "libno_such_cudnn.so.9";
  EXPECT_THAT(ErrorOf(options),
              AllOf(HasSubstr("NOT_FOUND: cannot open cuDNN"), HasSubstr("libno_such_cudnn.so.9")));
}

TEST_F(CudnnAttentionTest, AMissingFunctionIsNamed) {
  CudnnAttentionOptions options = Options();
  options.library = CUDNN_STUMP;
  EXPECT_THAT(ErrorOf(options),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("has no function cudnn"),
                    HasSubstr("expected one of version 9.16.0")));
}

TEST_F(CudnnAttentionTest, AnotherVersionIsRefused) {
  for (const auto& [version, text] :
       {std::pair<size_t, std::string>{91500, "9.15.0"}, {100000, "10.0.0"}}) {
    fake_cudnn::Set({.version = version, .engines = {{}}});
    EXPECT_THAT(ErrorOf(Options()),
                AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("is version " + text),
                      HasSubstr("expected 9.16.0 or a newer 9.x")));
  }
}

TEST_F(CudnnAttentionTest, NoHandleOrStreamIsAStatus) {
  fake_cudnn::Set({.handle = false, .engines = {{}}});
  EXPECT_THAT(ErrorOf(Options()), HasSubstr("UNAVAILABLE: cudnnCreate: "
                                            "CUDNN_STATUS_NOT_INITIALIZED: no device"));
  fake_cudnn::Set({.stream = false, .engines = {{}}});
  EXPECT_THAT(ErrorOf(Options()), HasSubstr("UNAVAILABLE: cudnnSetStream"));
}

}  // namespace
}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// The communicators of emulated devices in processes of their own start calls as a GPU does.
#include "tests/integration/gpu/gloo_device.h"

#include <thread>

#include "gtest/gtest.h"
#include "tests/worker/comm/tensors.h"
#include "worker/comm/local/local.h"

namespace stretto::testing {
namespace {

// Streams of one process, on which two groups of one rank communicate.
class GlooDeviceTest : public ::testing::Test {
 protected:
  GlooDeviceTest() {
    for (cudaStream_t& stream : streams_)
      EXPECT_EQ(cudaStreamCreateWithPriority(&stream, 0, 0), cudaSuccess);
  }
  ~GlooDeviceTest() override {
    for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
    cuda_emulator::Reset();
  }
  absl::Status Run(GlooDevice& device, cudaStream_t stream) {
    return device.Run(Collective::AllReduce(tensor_.view(), ReduceOp::kSum), stream);
  }
  // Lets streams get on until one is empty or many pieces of work had their chance.
  static bool Empties(cudaStream_t stream) {
    for (int i = 0; i < 1000; ++i) {
      if (cudaStreamQuery(stream) == cudaSuccess) return true;
      std::this_thread::yield();
    }
    return false;
  }

  Tensor tensor_ = Patterned(DType::kF32, 0, 3);
  IssuedCalls issued_;
  GlooDevice first_{std::move(LocalGroup::Create(1)[0]), &issued_};
  GlooDevice second_{std::move(LocalGroup::Create(1)[0]), &issued_};
  cudaStream_t streams_[2] = {};
};

TEST_F(GlooDeviceTest, ACallStartsOnlyWhenAllThatWereIssuedBeforeItHaveStarted) {
  bool open = false;
  ASSERT_EQ(cuda_emulator::Enqueue(
                streams_[0], [] {}, [&] { return open; }),
            cudaSuccess);
  ASSERT_TRUE(Run(first_, streams_[0]).ok());
  ASSERT_TRUE(Run(second_, streams_[1]).ok());
  EXPECT_FALSE(Empties(streams_[1]));

  open = true;

  while (!Empties(streams_[0]) || !Empties(streams_[1])) {
  }
}

TEST_F(GlooDeviceTest, CallsOfAGraphAreIssuedWhenItIsLaunched) {
  ASSERT_EQ(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_TRUE(Run(first_, streams_[0]).ok());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams_[0], &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
  // Captured before this call, and not launched.
  ASSERT_TRUE(Run(second_, streams_[1]).ok());
  while (!Empties(streams_[1])) {
  }
  for (int launch = 0; launch < 2; ++launch) {
    ASSERT_EQ(cudaGraphLaunch(exec, streams_[0]), cudaSuccess);
    ASSERT_TRUE(Run(second_, streams_[1]).ok());
    while (!Empties(streams_[0]) || !Empties(streams_[1])) {
    }
  }
  (void)cudaGraphExecDestroy(exec);
  (void)cudaGraphDestroy(graph);
}

}  // namespace
}  // namespace stretto::testing

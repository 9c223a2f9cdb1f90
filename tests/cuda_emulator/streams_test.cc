// SPDX-License-Identifier: Apache-2.0

// The emulated runtime itself: what it allows, what it refuses, and that it finds what is missing.
#include <cuda_runtime.h>

#include <algorithm>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cuda_emulator {
namespace {

using ::testing::ElementsAre;

class StreamsTest : public ::testing::Test {
 protected:
  StreamsTest() {
    for (cudaStream_t* stream : {&a_, &b_}) cudaStreamCreateWithPriority(stream, 0, 0);
    for (cudaEvent_t* event : {&e_, &f_, &g_}) cudaEventCreateWithFlags(event, 0);
  }
  ~StreamsTest() override {
    for (cudaStream_t stream : {a_, b_}) cudaStreamDestroy(stream);
    for (cudaEvent_t event : {e_, f_, g_}) cudaEventDestroy(event);
    EXPECT_EQ(Leaks(), 0);
    Reset();
  }
  cudaError_t Note(cudaStream_t stream, int number) {
    return Enqueue(stream, [this, number] { noted_.push_back(number); });
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
  cudaEvent_t e_ = nullptr, f_ = nullptr, g_ = nullptr;
  std::vector<int> noted_;
};

TEST_F(StreamsTest, WorkRunsWhenTheHostWaitsForIt) {
  Note(a_, 1);
  Note(a_, 2);
  EXPECT_TRUE(noted_.empty());
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_THAT(noted_, ElementsAre(1, 2));
}

TEST_F(StreamsTest, AnEventOrdersStreamsUnderEverySeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Seed(seed);
    noted_.clear();
    Note(a_, 1);
    cudaEventRecord(e_, a_);
    cudaStreamWaitEvent(b_, e_);
    Note(b_, 2);
    cudaDeviceSynchronize();
    EXPECT_THAT(noted_, ElementsAre(1, 2));
  }
}

TEST_F(StreamsTest, WithoutAnEventSomeSeedTurnsTheOrderRound) {
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    Seed(seed);
    noted_.clear();
    Note(a_, 1);
    Note(b_, 2);
    cudaDeviceSynchronize();
    orders.insert(noted_);
  }
  EXPECT_EQ(orders.size(), 2u);
}

TEST_F(StreamsTest, AWaitIsForTheRecordBeforeIt) {
  Note(a_, 1);
  cudaEventRecord(e_, a_);
  cudaStreamWaitEvent(b_, e_);
  Note(b_, 2);
  cudaStreamWaitEvent(a_, e_);
  cudaEventRecord(f_, b_);
  cudaStreamWaitEvent(a_, f_);
  Note(a_, 3);
  cudaEventRecord(e_, a_);  // b does not wait for this one
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  EXPECT_THAT(noted_, ElementsAre(1, 2, 3));
}

TEST_F(StreamsTest, AQueryRunsSomeOfTheWorkAndEndsInSuccess) {
  Seed(3);
  EXPECT_EQ(cudaEventQuery(e_), cudaSuccess);  // never recorded
  for (int i = 0; i < 500; ++i) Note(a_, i);
  cudaEventRecord(e_, a_);
  int queries = 1;
  while (cudaEventQuery(e_) == cudaErrorNotReady) ++queries;
  EXPECT_GT(queries, 3);
  EXPECT_EQ(noted_.size(), 500u);
}

TEST_F(StreamsTest, TimeGoesOnBetweenEvents) {
  float ms = -1;
  cudaEventRecord(e_, a_);
  cudaEventRecord(f_, a_);
  EXPECT_EQ(cudaEventElapsedTime(&ms, e_, f_), cudaErrorNotReady);
  cudaStreamSynchronize(a_);
  EXPECT_EQ(cudaEventElapsedTime(&ms, e_, f_), cudaSuccess);
  EXPECT_GE(ms, 0);
  EXPECT_EQ(cudaEventElapsedTime(&ms, e_, g_), cudaErrorInvalidValue);
}

// A graph on a, forked to b and joined again, with an external wait for e and a record of f.
class GraphTest : public StreamsTest {
 protected:
  void Capture() {
    ASSERT_EQ(cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    cudaEventRecord(g_, a_);
    cudaStreamWaitEvent(b_, g_);
    EXPECT_EQ(cudaStreamWaitEvent(b_, e_, cudaEventWaitExternal), cudaSuccess);
    Note(b_, 2);
    EXPECT_EQ(cudaEventRecordWithFlags(f_, b_, cudaEventRecordExternal), cudaSuccess);
    cudaEventRecord(g_, b_);
    cudaStreamWaitEvent(a_, g_);
    Note(a_, 3);
    ASSERT_EQ(cudaStreamEndCapture(a_, &graph_), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&exec_, graph_), cudaSuccess);
  }
  ~GraphTest() override {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

TEST_F(GraphTest, CapturesInsteadOfRunningAndRunsWhenLaunched) {
  Capture();
  cudaDeviceSynchronize();
  EXPECT_TRUE(noted_.empty());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGraphLaunch(exec_, a_), cudaSuccess);
  cudaDeviceSynchronize();
  EXPECT_THAT(noted_, ElementsAre(2, 3, 2, 3));
  EXPECT_EQ(Graphs().launched, 2);
}

TEST_F(GraphTest, ExternalEventsOrderItWithOtherStreams) {
  Capture();
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Seed(seed);
    noted_.clear();
    Note(b_, 1);
    cudaEventRecord(e_, b_);
    cudaGraphLaunch(exec_, a_);
    cudaStreamWaitEvent(b_, f_);
    Note(b_, 4);
    cudaDeviceSynchronize();
    EXPECT_EQ(noted_.front(), 1);
    EXPECT_EQ(noted_.size(), 4u);
    EXPECT_LT(std::find(noted_.begin(), noted_.end(), 2),
              std::find(noted_.begin(), noted_.end(), 4));
  }
}

TEST_F(GraphTest, EventNodesAreFoundAndSet) {
  Capture();
  size_t count = 0;
  cudaGraphGetNodes(graph_, nullptr, &count);
  EXPECT_EQ(count, 4u);
  std::vector<cudaGraphNode_t> nodes(count);
  cudaGraphGetNodes(graph_, nodes.data(), &count);
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    cudaGraphNodeGetType(node, &type);
    cudaEvent_t event = nullptr;
    if (type != cudaGraphNodeTypeEventRecord) continue;
    EXPECT_EQ(cudaGraphEventRecordNodeGetEvent(node, &event), cudaSuccess);
    EXPECT_EQ(event, f_);
    EXPECT_EQ(cudaGraphExecEventRecordNodeSetEvent(exec_, node, g_), cudaSuccess);
    EXPECT_EQ(cudaGraphExecEventWaitNodeSetEvent(exec_, node, g_), cudaErrorInvalidValue);
  }
  cudaGraphLaunch(exec_, a_);
  EXPECT_EQ(cudaEventQuery(g_), cudaSuccess);
  EXPECT_THAT(noted_, testing::Contains(2));
}

TEST_F(StreamsTest, ACaptureThatIsNotJoinedIsRefused) {
  cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal);
  cudaEventRecord(e_, a_);
  cudaStreamWaitEvent(b_, e_);
  Note(b_, 1);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaErrorStreamCaptureUnjoined);
}

TEST_F(StreamsTest, ACaptureWaitsForNothingOutsideUnlessItSaysSo) {
  cudaEventRecord(e_, b_);
  cudaStreamBeginCapture(a_, cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(cudaStreamWaitEvent(a_, e_), cudaErrorStreamCaptureIsolation);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(a_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST_F(StreamsTest, CopiesStayInTheirMemory) {
  void *device = nullptr, *pinned = nullptr;
  char pageable[16];
  ASSERT_EQ(cudaMalloc(&device, 16), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 16), cudaSuccess);
  EXPECT_EQ(*static_cast<unsigned char*>(device), 0xff);  // poisoned
  EXPECT_EQ(cudaMemcpyAsync(device, pinned, 16, cudaMemcpyHostToDevice, a_), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(device, pinned, 17, cudaMemcpyHostToDevice, a_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(pinned, device, 16, cudaMemcpyHostToDevice, a_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(device, pageable, 16, cudaMemcpyHostToDevice, a_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(pageable, device, 16, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device, device, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(device), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

// As a device has it: fills and copies of pageable memory go on behind the call.
TEST_F(StreamsTest, WhatNamesNoStreamMayOutlastItsCall) {
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 16), cudaSuccess);
  const auto first = [&] { return *static_cast<unsigned char*>(device); };
  EXPECT_EQ(cudaMemset(device, 0, 16), cudaSuccess);
  EXPECT_EQ(first(), 0xff);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(first(), 0);
  char pageable[16] = "staged";
  EXPECT_EQ(cudaMemcpy(device, pageable, 16, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(first(), 0);
  pageable[0] = 0;
  EXPECT_EQ(cudaMemcpy(pageable, device, 16, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_STREQ(pageable, "staged");
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(StreamsTest, MemoryEnds) {
  SetMemory(1000);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1001), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&memory, 600), cudaSuccess);
  size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 400u);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST_F(StreamsTest, ErrorsComeWhereATestAsksForThem) {
  FailLaunchAfter(1);
  EXPECT_EQ(Note(a_, 1), cudaSuccess);
  EXPECT_EQ(Note(a_, 2), cudaErrorLaunchFailure);
  EXPECT_EQ(Note(a_, 3), cudaSuccess);
  BreakAfter(1);
  EXPECT_EQ(cudaStreamSynchronize(a_), cudaErrorIllegalAddress);
  EXPECT_THAT(noted_, ElementsAre(1));
  EXPECT_EQ(Note(a_, 4), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventQuery(e_), cudaErrorIllegalAddress);
}

TEST_F(StreamsTest, ALaunchIntoAFullQueueBlocks) {
  for (int i = 0; i < 1025; ++i) Note(a_, i);
  EXPECT_EQ(noted_.size(), 1u);
  EXPECT_DEATH(
      {
        Enqueue(
            b_, [] {}, [] { return false; });
        for (int i = 0; i < 1024; ++i) Note(b_, i);
      },
      "streams that nothing moves any more");
}

TEST_F(GraphTest, AnEventOutlivesGraphsThatReferToIt) {
  Capture();
  EXPECT_EQ(cudaEventDestroy(e_), cudaErrorInvalidValue);
  EXPECT_EQ(Graphs().alive, 2);
}

TEST_F(GraphTest, AGraphIsDestroyedWhileItRuns) {
  Capture();
  cudaGraphLaunch(exec_, a_);
  cudaGraphExecDestroy(exec_);
  exec_ = nullptr;
  cudaDeviceSynchronize();
  EXPECT_THAT(noted_, ElementsAre(2, 3));
}

void DoNothing() {}

TEST_F(StreamsTest, AKernelAsksForMuchSharedMemory) {
  cudaLaunchConfig_t config = {};
  config.dynamicSmemBytes = 48 * 1024 + 1;
  EXPECT_EQ(cudaLaunchKernelEx(&config, DoNothing), cudaErrorInvalidValue);
  constexpr auto kAttribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  EXPECT_EQ(cudaFuncSetAttribute(DoNothing, kAttribute, 228 * 1024), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(DoNothing, kAttribute, 49 * 1024), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernelEx(&config, DoNothing), cudaSuccess);
}

TEST_F(StreamsTest, WorkMayStandStill) {
  bool open = false;
  Enqueue(
      a_, [this] { noted_.push_back(1); }, [&] { return open; });
  EXPECT_EQ(cudaStreamQuery(a_), cudaErrorNotReady);
  open = true;
  EXPECT_EQ(cudaStreamQuery(a_), cudaSuccess);
  EXPECT_THAT(noted_, ElementsAre(1));
}

}  // namespace
}  // namespace cuda_emulator

// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the files of the emulated runtime share.

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace cuda_emulator {

// The error that a broken device returns from every call.
cudaError_t Sticky();
void ResetMemory();
void ResetStreams();
void ResetGraphs();
int AllocationsLeft();
int StreamsAndEventsLeft();
int GraphsLeft();
uint64_t CurrentSeed();

// Records are numbered; a wait is for a number.
struct EventState {
  uint64_t issued = 0, done = 0;
  int64_t time = 0;  // of the last record that ran, nanoseconds
};

// A piece of work in a graph.
struct Node {
  cudaGraphNodeType type = cudaGraphNodeTypeKernel;
  std::function<void()> work;
  std::function<bool()> ready;   // empty: yes
  std::function<void()> issued;  // called at a launch; empty: nothing is
  cudaEvent_t event = nullptr;
  std::vector<int> after;       // nodes
  cudaStream_t lane = nullptr;  // captured on; its turns are drawn with that stream's
};

// One launch of an executable graph.
struct GraphRun {
  std::shared_ptr<bool> running;  // whether one of the executable is
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<EventState>> events;
  std::vector<uint64_t> numbers;  // of the records that nodes make or wait for
  std::vector<bool> done;
  int left = 0;
  bool started = false;
};

// A piece of work on a stream.
struct Task {
  std::function<void()> work;         // empty for the others
  std::function<bool()> ready;        // empty: yes
  std::shared_ptr<EventState> event;  // records or waits for `number`
  bool records = false;
  uint64_t number = 0;
  std::shared_ptr<GraphRun> graph;
};

// Runs others first where the stream's queue is full, as a launch blocks then.
void Append(cudaStream_t stream, Task task);
// What the calls without a stream's name go through.
cudaStream_t NullStream();
// Whether a graph that lives records the event or waits for it.
bool IsInGraph(cudaEvent_t event);
// To the graph that the stream is captured into, behind what it captured before.
void AddNode(cudaStream_t stream, Node node);
// Runs pieces of work until `done`. False: nothing can run any more.
bool RunUntil(const std::function<bool()>& done);
// Runs some.
void RunSome(const std::function<bool()>& done);

}  // namespace cuda_emulator

struct CUstream_st {
  int number = 0;
  std::deque<cuda_emulator::Task> tasks;
  // While it is captured.
  cudaGraph_t graph = nullptr;
  bool origin = false;
  std::vector<int> after;  // nodes that the next one follows
};

struct CUevent_st {
  bool timing = true;
  std::shared_ptr<cuda_emulator::EventState> state = std::make_shared<cuda_emulator::EventState>();
  // Recorded in a graph that is being captured.
  cudaGraph_t graph = nullptr;
  std::vector<int> after;
};

struct CUgraphNode_st {
  cudaGraph_t graph = nullptr;
  int index = 0;
};

struct CUgraph_st {
  std::vector<cuda_emulator::Node> nodes;
  std::deque<CUgraphNode_st> handles;
  std::vector<cudaStream_t> streams;
};

struct CUgraphExec_st {
  std::vector<cuda_emulator::Node> nodes;
  std::shared_ptr<bool> running = std::make_shared<bool>(false);
};

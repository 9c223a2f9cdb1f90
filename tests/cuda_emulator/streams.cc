// SPDX-License-Identifier: Apache-2.0

// Streams as queues: which piece of work comes next.

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

#include "tests/cuda_emulator/state.h"

namespace cuda_emulator {
namespace {

constexpr size_t kQueue = 1024;

struct Device {
  std::vector<cudaStream_t> streams;
  CUstream_st null;
  int next_stream = 0;
  int events = 0;
  std::mt19937_64 random;
  uint64_t round = 0;  // priorities hold for one
  int turns_left = 0;  // of the round
  int launches_left = -1, pieces_left = -1;
  cudaError_t sticky = cudaSuccess;
};

Device& device() {
  static auto* device = new Device;
  return *device;
}

// Who goes first among those that can: the highest. Drawn anew every few turns, so that sometimes a
// stream runs far ahead.
uint64_t Priority(cudaStream_t stream) {
  const uint64_t number = static_cast<uint64_t>(stream->number);
  if (CurrentSeed() == 0) return ~number;
  uint64_t x = (CurrentSeed() * 0x9e3779b97f4a7c15u) ^ (device().round * 0xbf58476d1ce4e5b9u) ^
               (number * 0x94d049bb133111ebu);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

void TakeTurn() {
  if (device().turns_left-- > 0) return;
  ++device().round;
  device().turns_left = static_cast<int>(device().random() % 24);
}

void Break() {
  device().sticky = cudaErrorIllegalAddress;
  device().null.tasks.clear();
  for (cudaStream_t stream : device().streams) stream->tasks.clear();
}

void Record(EventState* event, uint64_t number) {
  event->done = std::max(event->done, number);
  event->time = std::chrono::duration_cast<std::chrono::nanoseconds>(
                    std::chrono::steady_clock::now().time_since_epoch())
                    .count();
}

bool NodeCanRun(const GraphRun& run, size_t i) {
  const Node& node = run.nodes[i];
  const auto done = [&](int before) { return run.done[static_cast<size_t>(before)]; };
  return !run.done[i] && std::all_of(node.after.begin(), node.after.end(), done) &&
         (!node.ready || node.ready()) &&
         (node.type != cudaGraphNodeTypeWaitEvent || run.events[i]->done >= run.numbers[i]);
}

void RunNode(GraphRun* run, size_t i) {
  const Node& node = run->nodes[i];
  if (node.work) node.work();
  if (node.type == cudaGraphNodeTypeEventRecord) Record(run->events[i].get(), run->numbers[i]);
  run->done[i] = true;
  --run->left;
}

// A piece of work that can run now: a stream's front, or a node of the graph there.
struct Choice {
  cudaStream_t stream = nullptr;
  int node = -1;
  uint64_t priority = 0;
};

void Consider(Choice choice, cudaStream_t lane, Choice* best) {
  choice.priority = Priority(lane);
  if (best->stream == nullptr || choice.priority > best->priority) *best = choice;
}

void ConsiderGraph(cudaStream_t stream, GraphRun& run, Choice* best) {
  if (!run.started) {
    if (*run.running) return;
    run.started = *run.running = true;
  }
  if (run.left == 0) return Consider({stream, -1}, stream, best);
  for (size_t i = 0; i < run.nodes.size(); ++i) {
    if (NodeCanRun(run, i)) Consider({stream, static_cast<int>(i)}, run.nodes[i].lane, best);
  }
}

void ConsiderStream(cudaStream_t stream, Choice* best) {
  if (stream->tasks.empty()) return;
  Task& task = stream->tasks.front();
  if (task.graph != nullptr) {
    ConsiderGraph(stream, *task.graph, best);
  } else if (task.event != nullptr && !task.records) {
    if (task.event->done >= task.number) Consider({stream, -1}, stream, best);
  } else if (!task.ready || task.ready()) {
    Consider({stream, -1}, stream, best);
  }
}

Choice Choose() {
  Choice best;
  for (cudaStream_t stream : device().streams) ConsiderStream(stream, &best);
  // As late as may be.
  if (best.stream == nullptr) ConsiderStream(&device().null, &best);
  return best;
}

bool RunOne() {
  TakeTurn();
  const Choice choice = Choose();
  if (choice.stream == nullptr) return false;
  if (device().pieces_left >= 0 && device().pieces_left-- == 0) {
    Break();
    return true;
  }
  if (choice.node >= 0) {
    RunNode(choice.stream->tasks.front().graph.get(), static_cast<size_t>(choice.node));
    return true;
  }
  const Task task = std::move(choice.stream->tasks.front());
  choice.stream->tasks.pop_front();
  if (task.records) Record(task.event.get(), task.number);
  if (task.work) task.work();
  if (task.graph != nullptr) *task.graph->running = false;
  return true;
}

void RunNullStream() {
  for (auto& tasks = device().null.tasks; !tasks.empty(); tasks.pop_front()) tasks.front().work();
}

bool Idle() {
  return device().null.tasks.empty() &&
         std::all_of(device().streams.begin(), device().streams.end(),
                     [](cudaStream_t stream) { return stream->tasks.empty(); });
}

cudaError_t Await(const std::function<bool()>& done) {
  if (!RunUntil(done)) {
    std::fprintf(stderr, "cuda_emulator: the host waits for streams that nothing moves any more\n");
    std::abort();
  }
  return Sticky();
}

}  // namespace

cudaError_t Sticky() { return device().sticky; }
void FailLaunchAfter(int launches) { device().launches_left = launches; }
void BreakAfter(int pieces) { device().pieces_left = pieces; }

cudaStream_t NullStream() { return &device().null; }

void Append(cudaStream_t stream, Task task) {
  if (stream == nullptr) {
    RunNullStream();
    if (task.records) Record(task.event.get(), task.number);
    return;
  }
  Await([&] { return stream->tasks.size() < kQueue; });
  if (device().sticky == cudaSuccess) stream->tasks.push_back(std::move(task));
}

bool RunUntil(const std::function<bool()>& done) {
  while (device().sticky == cudaSuccess && !done()) {
    if (!RunOne()) return false;
  }
  return true;
}

void RunSome(const std::function<bool()>& done) {
  const uint64_t pieces = CurrentSeed() == 0 ? ~uint64_t{0} : 1 + device().random() % 64;
  for (uint64_t i = 0; i < pieces && device().sticky == cudaSuccess && !done(); ++i) {
    if (!RunOne()) return;
  }
}

cudaError_t Enqueue(cudaStream_t stream, std::function<void()> work, std::function<bool()> ready,
                    std::function<void()> issued) {
  if (device().sticky != cudaSuccess) return device().sticky;
  if (device().launches_left >= 0 && device().launches_left-- == 0) return cudaErrorLaunchFailure;
  if (stream == nullptr) {
    if (const cudaError_t error = cudaStreamSynchronize(nullptr); error != cudaSuccess)
      return error;
    if (issued) issued();
    work();
    return cudaSuccess;
  }
  if (stream->graph == nullptr) {
    Task task;
    task.work = std::move(work);
    task.ready = std::move(ready);
    Append(stream, std::move(task));
    if (issued) issued();
    return cudaSuccess;
  }
  Node node;
  node.work = std::move(work);
  node.ready = std::move(ready);
  node.issued = std::move(issued);
  AddNode(stream, std::move(node));
  return cudaSuccess;
}

void ResetStreams() {
  const uint64_t next = static_cast<uint64_t>(device().next_stream);
  device() = {};
  device().next_stream = static_cast<int>(next);
}

int StreamsAndEventsLeft() { return static_cast<int>(device().streams.size()) + device().events; }

}  // namespace cuda_emulator

using cuda_emulator::device;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) { return number == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetLastError() { return cuda_emulator::Sticky(); }
cudaError_t cudaDeviceSynchronize() { return cuda_emulator::Await(cuda_emulator::Idle); }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new CUstream_st;
  (*stream)->number = ++device().next_stream;
  device().streams.push_back(*stream);
  return cuda_emulator::Sticky();
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::erase(device().streams, stream);
  delete stream;
  return cuda_emulator::Sticky();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const auto empty = [&] { return stream->tasks.empty(); };
  cuda_emulator::RunSome(empty);
  if (cuda_emulator::Sticky() != cudaSuccess) return cuda_emulator::Sticky();
  return empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) {
    cuda_emulator::RunNullStream();
    return cuda_emulator::Sticky();
  }
  return cuda_emulator::Await([&] { return stream->tasks.empty(); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->timing = (flags & cudaEventDisableTiming) == 0;
  ++device().events;
  return cuda_emulator::Sticky();
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (cuda_emulator::IsInGraph(event)) return cudaErrorInvalidValue;
  --device().events;
  delete event;
  return cuda_emulator::Sticky();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto done = [&] { return event->state->done >= event->state->issued; };
  if (event->graph != nullptr) return cudaErrorStreamCaptureUnsupported;
  cuda_emulator::RunSome(done);
  if (cuda_emulator::Sticky() != cudaSuccess) return cuda_emulator::Sticky();
  return done() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return cuda_emulator::Await([&] { return event->state->done >= event->state->issued; });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  for (cudaEvent_t event : {begin, end}) {
    if (!event->timing || event->state->issued == 0) return cudaErrorInvalidValue;
    if (event->state->done < event->state->issued) return cudaErrorNotReady;
  }
  *milliseconds =
      static_cast<float>(static_cast<double>(end->state->time - begin->state->time) * 1e-6);
  return cuda_emulator::Sticky();
}

// SPDX-License-Identifier: Apache-2.0

// What streams capture instead of running, and how it runs.

#include <cuda_runtime.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tests/cuda_emulator/state.h"

namespace cuda_emulator {
namespace {

GraphCounts counts;
std::set<cudaGraph_t> graphs;
std::set<cudaGraphExec_t> executables;

void Merge(const std::vector<int>& from, std::vector<int>* to) {
  for (int node : from) {
    if (std::find(to->begin(), to->end(), node) == to->end()) to->push_back(node);
  }
}

// Every node comes before the last of the origin.
bool Joined(const CUgraph_st& graph, const std::vector<int>& last) {
  std::vector<bool> seen(graph.nodes.size());
  std::vector<int> open = last;
  while (!open.empty()) {
    const size_t node = static_cast<size_t>(open.back());
    open.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    open.insert(open.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return std::all_of(seen.begin(), seen.end(), [](bool s) { return s; });
}

void LeaveCapture(cudaGraph_t graph) {
  for (cudaStream_t stream : graph->streams) {
    stream->graph = nullptr;
    stream->origin = false;
    stream->after.clear();
  }
}

}  // namespace

void AddNode(cudaStream_t stream, Node node) {
  CUgraph_st& graph = *stream->graph;
  node.after = stream->after;
  node.lane = stream;
  const int index = static_cast<int>(graph.nodes.size());
  graph.nodes.push_back(std::move(node));
  graph.handles.push_back({&graph, index});
  stream->after = {index};
}

bool IsInGraph(cudaEvent_t event) {
  const auto holds = [&](const auto* graph) {
    return std::any_of(graph->nodes.begin(), graph->nodes.end(),
                       [&](const Node& node) { return node.event == event; });
  };
  return std::any_of(graphs.begin(), graphs.end(), holds) ||
         std::any_of(executables.begin(), executables.end(), holds);
}

void ResetGraphs() { counts = {}; }
int GraphsLeft() { return static_cast<int>(graphs.size() + executables.size()); }
GraphCounts Graphs() {
  counts.alive = GraphsLeft();
  return counts;
}

}  // namespace cuda_emulator

using cuda_emulator::Node;
using cuda_emulator::Task;

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (stream == nullptr || stream->graph == nullptr) {
    event->graph = nullptr;
    Task task;
    task.event = event->state;
    task.records = true;
    task.number = ++event->state->issued;
    cuda_emulator::Append(stream, std::move(task));
    return cuda_emulator::Sticky();
  }
  if (flags == cudaEventRecordExternal) {
    Node node;
    node.type = cudaGraphNodeTypeEventRecord;
    node.event = event;
    cuda_emulator::AddNode(stream, std::move(node));
    return cudaSuccess;
  }
  event->graph = stream->graph;
  event->after = stream->after;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (flags == cudaEventWaitExternal) {
    if (stream->graph == nullptr) return cudaErrorIllegalState;
    Node node;
    node.type = cudaGraphNodeTypeWaitEvent;
    node.event = event;
    cuda_emulator::AddNode(stream, std::move(node));
    return cudaSuccess;
  }
  if (event->graph != nullptr) {
    if (stream->graph != nullptr && stream->graph != event->graph)
      return cudaErrorStreamCaptureIsolation;
    if (stream->graph == nullptr) {
      stream->graph = event->graph;
      stream->graph->streams.push_back(stream);
    }
    cuda_emulator::Merge(event->after, &stream->after);
    return cudaSuccess;
  }
  if (stream->graph != nullptr) return cudaErrorStreamCaptureIsolation;
  if (event->state->issued == 0) return cuda_emulator::Sticky();  // never recorded: no wait
  Task task;
  task.event = event->state;
  task.number = event->state->issued;
  cuda_emulator::Append(stream, std::move(task));
  return cuda_emulator::Sticky();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (cuda_emulator::Sticky() != cudaSuccess) return cuda_emulator::Sticky();
  if (stream->graph != nullptr) return cudaErrorIllegalState;
  stream->graph = new CUgraph_st;
  cuda_emulator::graphs.insert(stream->graph);
  stream->graph->streams.push_back(stream);
  stream->origin = true;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const bool captured = stream != nullptr && stream->graph != nullptr;
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cuda_emulator::Sticky();
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (stream->graph == nullptr || !stream->origin) return cudaErrorIllegalState;
  *graph = stream->graph;
  const bool joined = cuda_emulator::Joined(**graph, stream->after);
  cuda_emulator::LeaveCapture(*graph);
  if (joined) return cudaSuccess;
  cudaGraphDestroy(*graph);
  *graph = nullptr;
  return cudaErrorStreamCaptureUnjoined;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes != nullptr) {
    for (size_t i = 0; i < std::min(*count, graph->handles.size()); ++i)
      nodes[i] = &graph->handles[i];
  }
  *count = graph->handles.size();
  return cudaSuccess;
}

namespace {

const Node& NodeOf(cudaGraphNode_t node) {
  return node->graph->nodes[static_cast<size_t>(node->index)];
}

cudaError_t GetEvent(cudaGraphNode_t node, cudaGraphNodeType type, cudaEvent_t* event) {
  if (NodeOf(node).type != type) return cudaErrorInvalidValue;
  *event = NodeOf(node).event;
  return cudaSuccess;
}

cudaError_t SetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraphNodeType type,
                     cudaEvent_t event) {
  Node& copy = exec->nodes[static_cast<size_t>(node->index)];
  if (copy.type != type) return cudaErrorInvalidValue;
  copy.event = event;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = NodeOf(node).type;
  return cudaSuccess;
}
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return GetEvent(node, cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event) {
  return GetEvent(node, cudaGraphNodeTypeWaitEvent, event);
}
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaEvent_t event) {
  return SetEvent(exec, node, cudaGraphNodeTypeEventRecord, event);
}
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               cudaEvent_t event) {
  return SetEvent(exec, node, cudaGraphNodeTypeWaitEvent, event);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (cuda_emulator::Sticky() != cudaSuccess) return cuda_emulator::Sticky();
  *exec = new CUgraphExec_st{graph->nodes};
  cuda_emulator::executables.insert(*exec);
  ++cuda_emulator::counts.instantiated;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (cuda_emulator::Sticky() != cudaSuccess) return cuda_emulator::Sticky();
  if (stream->graph != nullptr) return cudaErrorStreamCaptureUnsupported;
  auto run = std::make_shared<cuda_emulator::GraphRun>();
  run->running = exec->running;
  run->nodes = exec->nodes;
  run->done.resize(run->nodes.size());
  run->left = static_cast<int>(run->nodes.size());
  for (const Node& node : run->nodes) {
    run->events.push_back(node.event == nullptr ? nullptr : node.event->state);
    uint64_t number = 0;
    if (node.type == cudaGraphNodeTypeEventRecord) {
      node.event->graph = nullptr;
      number = ++node.event->state->issued;
    } else if (node.type == cudaGraphNodeTypeWaitEvent) {
      number = node.event->state->issued;
    }
    run->numbers.push_back(number);
    if (node.issued) node.issued();
  }
  ++cuda_emulator::counts.launched;
  Task task;
  task.graph = std::move(run);
  cuda_emulator::Append(stream, std::move(task));
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  cuda_emulator::graphs.erase(graph);
  delete graph;
  return cuda_emulator::Sticky();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  cuda_emulator::executables.erase(exec);
  delete exec;
  return cuda_emulator::Sticky();
}

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The host's side of the emulated runtime: memory, streams, events, graphs. Included by
// cuda_runtime.h; the names are CUDA's and mean what they mean there.
//
// Work runs when the host looks: in a call that synchronises, and some of it in one that queries.
// Which stream goes first is drawn from the seed wherever events leave a choice, in runs long and
// short, so that a missing wait shows. Calls that CUDA calls undefined are refused.

#include <cstddef>
#include <cstdint>
#include <functional>

// Values as in CUDA.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDevice = 101,
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
};
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphNode_t = CUgraphNode_st*;
using cudaGraphExec_t = CUgraphExec_st*;

// Devices: there is one, number 0.
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
struct cudaDeviceProp {
  char name[256];
  int multiProcessorCount;
  size_t totalGlobalMem;
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);

// Memory. It starts poisoned: every float is NaN. A copy between the host and the device that
// leaves an allocation, or that takes memory of the one for that of the other, is refused; so is an
// asynchronous one of host memory that is not pinned. A fill, and a copy from host memory that is
// not pinned, may outlast the call: they are on the null stream, which other streams do not wait
// for.
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
};
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, size_t bytes);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemset(void* memory, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream);

// Streams. Priorities are not looked at. A stream takes 1024 pieces of work; the next call blocks
// until there is room, and ends the process where nothing can make any. Kernels on the null stream
// run in the call.
constexpr unsigned cudaStreamNonBlocking = 1;
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);

// Events. A wait is for the record that was issued last before it was. An event in a graph that
// lives cannot be destroyed.
constexpr unsigned cudaEventDisableTiming = 2;
constexpr unsigned cudaEventRecordDefault = 0, cudaEventRecordExternal = 1;
constexpr unsigned cudaEventWaitDefault = 0, cudaEventWaitExternal = 1;
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
// By the host's monotonic clock.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);

// Graphs. An executable graph runs once at a time, as on a device, and may be destroyed meanwhile.
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
enum cudaGraphNodeType {
  cudaGraphNodeTypeKernel = 0,  // any work
  cudaGraphNodeTypeWaitEvent = 6,
  cudaGraphNodeTypeEventRecord = 7,
};
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type);
cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event);
cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                 cudaEvent_t event);
cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node,
                                               cudaEvent_t event);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

namespace cuda_emulator {

// Seeds the order in which threads and streams run. 0: ascending.
void Seed(uint64_t seed);
// Appends work to a stream (a node to a graph while it is captured). `ready`: the stream stands
// still until it says true; empty: it is. `issued` is called when the work is on the stream: now,
// or at every launch of the graph, for its nodes in the order in which they were captured.
cudaError_t Enqueue(cudaStream_t stream, std::function<void()> work,
                    std::function<bool()> ready = {}, std::function<void()> issued = {});

// Device memory in bytes; what is asked for beyond it is refused.
void SetMemory(size_t bytes);
// The launch after `launches` more fails with cudaErrorLaunchFailure. -1: none.
void FailLaunchAfter(int launches);
// The piece of work after `pieces` more breaks the device: every call from then on returns
// cudaErrorIllegalAddress. -1: none.
void BreakAfter(int pieces);
// A device as good as new: nothing on it, no errors, seed 0, all its memory. Nothing may be in use.
void Reset();
// Allocations, streams, events and graphs that were not given back.
int Leaks();
// Graphs instantiated and launched since Reset, and those that live, executable ones included.
struct GraphCounts {
  int instantiated = 0, launched = 0, alive = 0;
};
GraphCounts Graphs();

}  // namespace cuda_emulator

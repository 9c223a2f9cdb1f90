// SPDX-License-Identifier: Apache-2.0
#pragma once
// Enqueues the instances of a step, call by call or as graphs.
//
// A graph holds the operations of one shape of instance on all lanes, forked from and joined to the
// stream that it is launched on. Two such streams alternate, so that an instance may begin before
// the previous one has ended. Transfers between stages bypass both: the next passes need not wait
// until they are done. Order between instances is kept by marks, which are event nodes in
// the graph; before every launch they are set to the marks of the instance.

#include <cuda_runtime.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/exec/backend_cuda/handles.h"
#include "worker/engine/exec/backend_cuda/in_flight.h"
#include "worker/engine/exec/backend_cuda/issue_plan.h"
#include "worker/engine/exec/backend_cuda/lane_streams.h"
#include "worker/engine/exec/backend_cuda/step_memory.h"

namespace stretto::cuda {

// The number of shapes of instances that are played as graphs.
inline constexpr size_t kMaxGraphs = 64;

class InstancePlayer {
 public:
  struct Setting {  // all borrowed
    const IssuePlan* plan;
    const IdVector<LocalRank, CudaRank>* ranks;
    const IdVector<LocalRank, StepMemory>* memory;
    LaneStreams* lanes;
    bool graphs;
    // Called while the step is enqueued, when much of it is already on the device.
    AwaitEvent await;
  };
  static absl::StatusOr<InstancePlayer> Create(const Setting& setting);

  // Enqueues the step: inputs to the device, all instances, outputs to the host. Errors: those of
  // `await`, and others that name the operation.
  absl::Status Enqueue();
  // Returns how many segments of the lane end in the part of the step enqueued so far.
  size_t segments(LaneId lane) const { return segments_[lane]; }
  // Returns how many begin there: one more than end if the last is enqueued in part.
  size_t segments_begun(LaneId lane) const { return segments_begun_[lane]; }

  // Destroys all graphs. Call it when nothing more is enqueued and before communicators end whose
  // collectives the graphs hold. Graphs that the device is running complete.
  void DropGraphs() { parts_.clear(); }

  // Whether all streams are empty. Errors: those of the device.
  absl::StatusOr<bool> AtRest() const;

  cudaEvent_t mark(int mark) const { return marks_[mark].get(); }
  // Records the first event of a step. Call it before Enqueue.
  absl::Status Begin();
  cudaEvent_t begin() const { return begin_.get(); }
  cudaEvent_t end() const { return end_.get(); }

 private:
  // The events that stand for an instance's marks while a graph is captured.
  struct Capture {
    std::vector<Event> records, waits, joins;  // joins: by position in the instance
  };
  // The state shared by all instances of a shape.
  struct Part {
    int instances = 0;                 // of the step
    bool as_graph = false;             // from the second time on
    std::vector<cuda::Enqueue> calls;  // empty until first played
    bool played = false;
    Capture capture;  // must outlive the graph, which does not own the events
    Graph graph;
    GraphExec exec;
    std::vector<cudaGraphNode_t> records, waits;  // in the order in which they were captured
  };

  explicit InstancePlayer(const Setting& s) : s_(s) {}
  absl::Status MakeEvents();
  void ChooseGraphs();

  absl::Status Play(size_t index);
  absl::Status Load(size_t index, cudaStream_t origin);
  // Lanes begin behind `entered`.
  absl::Status PlayCalls(const IssuedInstance& instance, Part& part, cudaEvent_t entered);
  absl::Status PlayGraph(const IssuedInstance& instance, Part& part, cudaStream_t origin);
  absl::Status Store(size_t index, cudaStream_t origin);
  absl::Status Finish();

  absl::Status CaptureGraph(const IssuedInstance& instance, Part& part, cudaStream_t origin);
  absl::Status CaptureCalls(const IssuedInstance& instance, Part& part, cudaStream_t origin);
  absl::Status FindNodes(Part* part) const;
  absl::Status IssueItem(const IssuedInstance& instance, size_t position, Part& part,
                         Capture* capture);
  void Note(const Item& item);
  absl::Status AwaitMarks(const std::vector<LaneId>& lanes, cudaStream_t stream);

  Setting s_;
  std::array<Stream, 2> origins_;
  IdVector<LaneId, InFlight> of_lanes_;
  std::vector<InFlight> of_origins_;
  std::vector<Event> marks_;
  Event begin_, inputs_, end_;
  std::array<Event, 2> entered_;
  std::vector<Event> stored_;  // [slot]
  std::map<std::vector<int>, Part> parts_;
  std::vector<Part*> part_of_;  // [instance]

  // The state of the step that is being enqueued.
  size_t turns_ = 0;                // of the origins
  IdVector<LaneId, int> lane_end_;  // the mark after its last operation so far; -1: none
  IdVector<LaneId, size_t> segments_, segments_begun_;
  std::vector<int> loaded_;  // [slot] micro-batch; -1: none
  std::vector<bool> is_stored_;
};

}  // namespace stretto::cuda

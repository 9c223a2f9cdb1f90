// SPDX-License-Identifier: Apache-2.0

// Enqueues the instances of a step. The first time an instance of a shape is played, its calls go
// to the streams one by one; from the second time on, a graph of that shape is launched. A graph is
// captured with event nodes that stand for marks, and before each launch these nodes are set to the
// marks of the instance. InFlight limits how far the host runs ahead of the device.

#include "worker/engine/exec/backend_cuda/instance_player.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/program/text.h"

namespace stretto::cuda {
namespace {

// Upper bounds for the commands of an operation, and of an instance besides its operations.
constexpr int kCommandsOfItem = 16, kCommandsOfInstance = 128;

absl::Status Record(cudaEvent_t event, cudaStream_t stream, unsigned flags = 0) {
  return ToStatus(cudaEventRecordWithFlags(event, stream, flags), "record of an event");
}
absl::Status Await(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0) {
  return ToStatus(cudaStreamWaitEvent(stream, event, flags), "wait for an event");
}

// Records and waits with new events during a capture. PlayGraph replaces these events by the marks
// of the instance that it launches.
absl::Status RecordNew(std::vector<Event>* events, cudaStream_t stream) {
  ASSIGN_OR_RETURN(Event event, MakeEvent(true));
  events->push_back(std::move(event));
  return Record(events->back().get(), stream, cudaEventRecordExternal);
}
absl::Status AwaitNew(std::vector<Event>* events, cudaStream_t stream) {
  ASSIGN_OR_RETURN(Event event, MakeEvent(true));
  events->push_back(std::move(event));
  return Await(stream, events->back().get(), cudaEventWaitExternal);
}

}  // namespace

absl::StatusOr<InstancePlayer> InstancePlayer::Create(const Setting& setting) {
  InstancePlayer player(setting);
  RETURN_IF_ERROR(player.MakeEvents());
  IdVector<LocalRank, RankProgram> programs;
  for (const CudaRank& rank : *setting.ranks) programs.push_back({&rank.step, &rank.program});
  for (const IssuedInstance& instance : setting.plan->instances) {
    Part& part = player.parts_[ShapeOf(programs, *setting.plan, instance)];
    part.instances += instance.transfers ? 0 : 1;
    player.part_of_.push_back(&part);
  }
  if (setting.graphs) player.ChooseGraphs();
  return player;
}

absl::Status InstancePlayer::MakeEvents() {
  int least = 0, greatest = 0;
  RETURN_IF_CUDA_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  for (Stream& origin : origins_) {
    ASSIGN_OR_RETURN(origin, MakeStream(least));
    ASSIGN_OR_RETURN(InFlight in_flight, InFlight::Create(origin.get()));
    of_origins_.push_back(std::move(in_flight));
  }
  for (LaneId lane : s_.plan->lanes.ids()) {
    ASSIGN_OR_RETURN(InFlight in_flight, InFlight::Create(s_.lanes->stream(lane)));
    of_lanes_.push_back(std::move(in_flight));
  }
  marks_.resize(s_.plan->marks);
  for (Event& mark : marks_) {
    ASSIGN_OR_RETURN(mark, MakeEvent(true));
  }
  ASSIGN_OR_RETURN(begin_, MakeEvent(true));
  stored_.resize(s_.plan->staging_slots);
  std::vector<Event*> plain = {&inputs_, &end_, &entered_[0], &entered_[1]};
  for (Event& event : stored_) plain.push_back(&event);
  for (Event* event : plain) {
    ASSIGN_OR_RETURN(*event, MakeEvent(false));
  }
  return absl::OkStatus();
}

// Graphs take memory of the device: shapes beyond kMaxGraphs, those with the fewest instances, are
// played call by call.
void InstancePlayer::ChooseGraphs() {
  std::vector<Part*> parts;
  for (auto& [shape, part] : parts_) {
    if (part.instances > 0) parts.push_back(&part);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part* a, const Part* b) { return a->instances > b->instances; });
  if (parts.size() > kMaxGraphs) parts.resize(kMaxGraphs);
  for (Part* part : parts) part->as_graph = true;
}

absl::Status InstancePlayer::Begin() { return Record(begin_.get(), origins_[0].get()); }

absl::StatusOr<bool> InstancePlayer::AtRest() const {
  std::vector<cudaStream_t> streams = {origins_[0].get(), origins_[1].get()};
  for (LaneId lane : s_.plan->lanes.ids()) streams.push_back(s_.lanes->stream(lane));
  for (cudaStream_t stream : streams) {
    const cudaError_t error = cudaStreamQuery(stream);
    if (error == cudaErrorNotReady) return false;
    RETURN_IF_ERROR(ToStatus(error, "device"));
  }
  return true;
}

absl::Status InstancePlayer::Enqueue() {
  turns_ = 0;
  lane_end_.assign(of_lanes_.size(), -1);
  segments_.assign(of_lanes_.size(), 0);
  segments_begun_.assign(of_lanes_.size(), 0);
  loaded_.assign(stored_.size(), -1);
  is_stored_.assign(stored_.size(), false);
  s_.lanes->WeightsChanged();
  for (const StepMemory& memory : *s_.memory) RETURN_IF_ERROR(memory.CopyInputs(origins_[0].get()));
  RETURN_IF_ERROR(Record(inputs_.get(), origins_[0].get()));
  RETURN_IF_ERROR(Await(origins_[1].get(), inputs_.get()));
  for (size_t i = 0; i < s_.plan->instances.size(); ++i) RETURN_IF_ERROR(Play(i));
  return Finish();
}

absl::Status InstancePlayer::Play(size_t index) {
  const IssuedInstance& instance = s_.plan->instances[index];
  Part& part = *part_of_[index];
  if (part.calls.empty()) part.calls = s_.lanes->Bind(instance);
  if (instance.transfers) return PlayCalls(instance, part, inputs_.get());
  const size_t turn = turns_++ % 2;
  const cudaStream_t origin = origins_[turn].get();
  RETURN_IF_ERROR(Load(index, origin));
  if (part.as_graph && part.played && part.exec == nullptr && !instance.items.empty())
    RETURN_IF_ERROR(CaptureGraph(instance, part, origin));
  if (part.exec != nullptr) {
    RETURN_IF_ERROR(PlayGraph(instance, part, origin));
  } else {
    RETURN_IF_ERROR(Record(entered_[turn].get(), origin));
    RETURN_IF_ERROR(PlayCalls(instance, part, entered_[turn].get()));
  }
  part.played = true;
  RETURN_IF_ERROR(Store(index, origin));
  return of_origins_[turn].Add(kCommandsOfInstance, s_.await);
}

// Notes an item that has been enqueued, with the marks of its segment before and after it.
void InstancePlayer::Note(const Item& item) {
  segments_begun_[item.lane] = segments_[item.lane] + 1;
  if (item.end_mark < 0) return;
  lane_end_[item.lane] = item.end_mark;
  ++segments_[item.lane];
}

absl::Status InstancePlayer::AwaitMarks(const std::vector<LaneId>& lanes, cudaStream_t stream) {
  for (LaneId lane : lanes) {
    const int mark = lane_end_[lane];
    if (mark >= 0) RETURN_IF_ERROR(Await(stream, marks_[mark].get()));
  }
  return absl::OkStatus();
}

// Loads the micro-batches of an instance into their slots, after all earlier reads and writes of
// the slots and after the outputs in them have been stored.
absl::Status InstancePlayer::Load(size_t index, cudaStream_t origin) {
  bool waited = false;
  for (int micro_batch : s_.plan->instances[index].micro_batches) {
    const size_t slot = micro_batch % loaded_.size();
    if (loaded_[slot] == micro_batch) continue;
    if (!waited) RETURN_IF_ERROR(AwaitMarks(s_.plan->staged, origin));
    waited = true;
    if (is_stored_[slot]) RETURN_IF_ERROR(Await(origin, stored_[slot].get()));
    for (const StepMemory& memory : *s_.memory)
      RETURN_IF_ERROR(memory.LoadSlot(micro_batch, origin));
    loaded_[slot] = micro_batch;
  }
  return absl::OkStatus();
}

absl::Status InstancePlayer::Store(size_t index, cudaStream_t origin) {
  const std::vector<int>& written = s_.plan->instances[index].written;
  if (written.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(AwaitMarks(s_.plan->staged, origin));
  for (int micro_batch : written) {
    const size_t slot = micro_batch % stored_.size();
    for (const StepMemory& memory : *s_.memory)
      RETURN_IF_ERROR(memory.StoreSlot(micro_batch, origin));
    RETURN_IF_ERROR(Record(stored_[slot].get(), origin));
    is_stored_[slot] = true;
  }
  return absl::OkStatus();
}

absl::Status InstancePlayer::Finish() {
  std::vector<LaneId> lanes;
  for (LaneId lane : lane_end_.ids()) lanes.push_back(lane);
  const cudaStream_t origin = origins_[0].get();
  RETURN_IF_ERROR(AwaitMarks(lanes, origin));
  // The second origin may still have copies of slots behind all marks.
  RETURN_IF_ERROR(Record(entered_[1].get(), origins_[1].get()));
  RETURN_IF_ERROR(Await(origin, entered_[1].get()));
  for (const StepMemory& memory : *s_.memory) RETURN_IF_ERROR(memory.CopyOutputs(origin));
  return Record(end_.get(), origin);
}

absl::Status InstancePlayer::PlayCalls(const IssuedInstance& instance, Part& part,
                                       cudaEvent_t entered) {
  for (LaneId lane : instance.lanes) RETURN_IF_ERROR(Await(s_.lanes->stream(lane), entered));
  for (size_t k = 0; k < instance.items.size(); ++k) {
    const Item& item = instance.items[k];
    RETURN_IF_ERROR(IssueItem(instance, k, part, nullptr));
    Note(item);
    const int commands = kCommandsOfItem + std::ssize(item.carried) + std::ssize(item.joins);
    RETURN_IF_ERROR(of_lanes_[item.lane].Add(commands, s_.await));
  }
  return absl::OkStatus();
}

absl::Status InstancePlayer::IssueItem(const IssuedInstance& instance, size_t position, Part& part,
                                       Capture* capture) {
  const Item& item = instance.items[position];
  const cudaStream_t stream = s_.lanes->stream(item.lane);
  for (int carried : item.carried) {
    RETURN_IF_ERROR(capture ? AwaitNew(&capture->waits, stream) : Await(stream, mark(carried)));
  }
  for (int join : item.joins) {
    RETURN_IF_ERROR(
        Await(stream, capture ? capture->joins[join].get() : mark(instance.items[join].end_mark)));
  }
  const auto record = [&](int own) {
    return capture ? RecordNew(&capture->records, stream) : Record(mark(own), stream);
  };
  if (item.begin_mark >= 0) RETURN_IF_ERROR(record(item.begin_mark));
  if (absl::Status status = part.calls[position](); !status.ok()) {
    const auto [rank, op] = item.ops[0];
    return absl::Status(status.code(), absl::StrCat(PrintOp((*s_.ranks)[rank].program, op), ": ",
                                                    status.message()));
  }
  if (item.end_mark >= 0) RETURN_IF_ERROR(record(item.end_mark));
  if (item.awaited && capture) {
    ASSIGN_OR_RETURN(capture->joins[position], MakeEvent(false));
    RETURN_IF_ERROR(Record(capture->joins[position].get(), stream));
  }
  return absl::OkStatus();
}

absl::Status InstancePlayer::PlayGraph(const IssuedInstance& instance, Part& part,
                                       cudaStream_t origin) {
  size_t record = 0, wait = 0;
  const auto record_at = [&](int own) {
    if (own < 0) return cudaSuccess;
    return cudaGraphExecEventRecordNodeSetEvent(part.exec.get(), part.records[record++], mark(own));
  };
  for (const Item& item : instance.items) {
    for (int carried : item.carried) {
      RETURN_IF_CUDA_ERROR(
          cudaGraphExecEventWaitNodeSetEvent(part.exec.get(), part.waits[wait++], mark(carried)));
    }
    RETURN_IF_CUDA_ERROR(record_at(item.begin_mark));
    RETURN_IF_CUDA_ERROR(record_at(item.end_mark));
  }
  RETURN_IF_ERROR(ToStatus(cudaGraphLaunch(part.exec.get(), origin), "launch of a graph"));
  for (const Item& item : instance.items) Note(item);
  return absl::OkStatus();
}

absl::Status InstancePlayer::CaptureGraph(const IssuedInstance& instance, Part& part,
                                          cudaStream_t origin) {
  part.capture.joins.resize(instance.items.size());
  RETURN_IF_CUDA_ERROR(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  const absl::Status captured = CaptureCalls(instance, part, origin);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(origin, &graph);
  part.graph.reset(graph);
  RETURN_IF_ERROR(captured);
  RETURN_IF_ERROR(ToStatus(ended, "capture of a graph"));
  part.capture.joins.clear();
  RETURN_IF_ERROR(FindNodes(&part));
  cudaGraphExec_t exec = nullptr;
  RETURN_IF_CUDA_ERROR(cudaGraphInstantiate(&exec, graph, 0));
  part.exec.reset(exec);
  return absl::OkStatus();
}

absl::Status InstancePlayer::CaptureCalls(const IssuedInstance& instance, Part& part,
                                          cudaStream_t origin) {
  ASSIGN_OR_RETURN(const Event fork, MakeEvent(false));
  RETURN_IF_ERROR(Record(fork.get(), origin));
  for (LaneId lane : instance.lanes) RETURN_IF_ERROR(Await(s_.lanes->stream(lane), fork.get()));
  for (size_t k = 0; k < instance.items.size(); ++k)
    RETURN_IF_ERROR(IssueItem(instance, k, part, &part.capture));
  for (LaneId lane : instance.lanes) {
    ASSIGN_OR_RETURN(const Event join, MakeEvent(false));
    RETURN_IF_ERROR(Record(join.get(), s_.lanes->stream(lane)));
    RETURN_IF_ERROR(Await(origin, join.get()));
  }
  return absl::OkStatus();
}

// Finds the nodes of the captured records and waits by their events.
absl::Status InstancePlayer::FindNodes(Part* part) const {
  std::map<cudaEvent_t, cudaGraphNode_t> node_of;
  size_t count = 0;
  RETURN_IF_CUDA_ERROR(cudaGraphGetNodes(part->graph.get(), nullptr, &count));
  std::vector<cudaGraphNode_t> nodes(count);
  RETURN_IF_CUDA_ERROR(cudaGraphGetNodes(part->graph.get(), nodes.data(), &count));
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = {};
    RETURN_IF_CUDA_ERROR(cudaGraphNodeGetType(node, &type));
    cudaEvent_t event = nullptr;
    if (type == cudaGraphNodeTypeEventRecord) {
      RETURN_IF_CUDA_ERROR(cudaGraphEventRecordNodeGetEvent(node, &event));
    } else if (type == cudaGraphNodeTypeWaitEvent) {
      RETURN_IF_CUDA_ERROR(cudaGraphEventWaitNodeGetEvent(node, &event));
    } else {
      continue;
    }
    node_of[event] = node;
  }
  for (const Event& event : part->capture.records) part->records.push_back(node_of.at(event.get()));
  for (const Event& event : part->capture.waits) part->waits.push_back(node_of.at(event.get()));
  return absl::OkStatus();
}

}  // namespace stretto::cuda

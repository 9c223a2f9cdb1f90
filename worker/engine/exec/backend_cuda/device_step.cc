// SPDX-License-Identifier: Apache-2.0

// Drives one step from the host. Prepare plans what is issued (issue_plan.h), allocates memory and
// streams, and makes the player. RunStep aligns the host's clock with the device's at an event on
// the idle device and enqueues everything. It then polls the communicators for errors and the end
// marks of the segments, to report which operations and which calls of groups have begun. The
// intervals of the ledger are read from the marks after the last event. After an error the
// communicators are aborted, and memory is freed only if the device comes to rest.

#include "worker/engine/exec/backend_cuda/device_step.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/collective_op.h"
#include "worker/engine/program/text.h"

namespace stretto::cuda {
namespace {

// Returns the communicators whose collectives use each arena, of the only rank of a device. Slots
// are not registered: collectives rarely use them, and they are small.
StepMemory::Users UsersOf(const CudaRank& rank) {
  const StepProgram& step = rank.step;
  StepMemory::Users users;
  const auto add = [&](BufferId id, DeviceCommunicator* user) {
    const Buffer& root = step.buffers[RootOf(step.buffers, id).buffer];
    auto& known = users[root.arena];
    if (root.slots == kPerMicroBatch || absl::c_linear_search(known, user)) return;
    known.push_back(user);
  };
  // The order, by group and then by operation, is the same on all ranks, as registration requires.
  for (GroupId group : IdRange<GroupId>(rank.links.size())) {
    DeviceCommunicator* const user = rank.links[group.position()].device;
    if (user == nullptr || !rank.links[group.position()].alike) continue;
    for (const Unit& unit : step.units) {
      for (const Op& op : unit.ops) {
        if (op.group != group) continue;
        const DType dtype = step.buffers[op.in[0]].dtype;
        if (WireTypeOf(op, dtype) != dtype) continue;
        add(op.in[0], user);
        add(op.out[0], user);
      }
    }
  }
  return users;
}

}  // namespace

DeviceStep::DeviceStep(IdVector<LocalRank, CudaRank> ranks, CudaExecutorOptions options)
    : ranks_(std::move(ranks)), options_(std::move(options)) {}

absl::Status DeviceStep::Prepare() {
  if (ranks_.empty() || ranks_.size() > kMaxLocalRanks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found ", ranks_.size(), " ranks for one device, expected 1 to ", kMaxLocalRanks));
  }
  IdVector<LocalRank, RankProgram> programs;
  for (const CudaRank& rank : ranks_) {
    programs.push_back({&rank.step, &rank.program});
    intervals_.emplace_back(rank.program.ops.size());
  }
  ASSIGN_OR_RETURN(plan_, PlanIssue(programs, options_.collective_sms > 0));
  segments_of_.resize(plan_.lanes.size());
  for (const Segment& segment : plan_.segments) segments_of_[segment.lane].push_back(&segment);
  calls_ = DeviceCalls(plan_, ranks_);
  RETURN_IF_ERROR(UseDevice());
  for (const CudaRank& rank : ranks_) {
    ASSIGN_OR_RETURN(StepMemory memory,
                     StepMemory::Create(rank.step, rank.program, plan_.staging_slots, rank.arenas,
                                        rank.borrowed, UsersOf(rank), options_.report));
    memory_.push_back(std::move(memory));
  }
  ASSIGN_OR_RETURN(LaneStreams lanes, LaneStreams::Create(plan_, ranks_, memory_, options_));
  lanes_ = std::make_unique<LaneStreams>(std::move(lanes));
  ASSIGN_OR_RETURN(
      InstancePlayer player,
      InstancePlayer::Create({.plan = &plan_,
                              .ranks = &ranks_,
                              .memory = &memory_,
                              .lanes = lanes_.get(),
                              .graphs = options_.graphs && options_.cupti.empty(),
                              .await = [this](cudaEvent_t event) { return Await(event); }}));
  player_ = std::make_unique<InstancePlayer>(std::move(player));
  return MakeLedgerCheck();
}

absl::Status DeviceStep::Run() {
  if (!error_.ok()) return error_;
  error_ = RunStep();
  if (!error_.ok()) ComeToRest();
  return error_;
}

absl::Status DeviceStep::UseDevice() const {
  return ToStatus(cudaSetDevice(options_.device), absl::StrCat("device ", options_.device));
}

void DeviceStep::Cancel() {
  cancelled_.store(true);
  for (DeviceCommunicator* communicator : Communicators()) communicator->Abort();
}

absl::Status DeviceStep::RunStep() {
  RETURN_IF_ERROR(UseDevice());
  if (cancelled_.load()) return absl::AbortedError("the step was cancelled");
  // The first step also times algorithms, which CUPTI would see between its operations.
  LedgerCheck* const check = std::exchange(has_run_, true) ? check_.get() : nullptr;
  if (check != nullptr) RETURN_IF_ERROR(check->Begin());
  at_rest_ = false;
  segments_done_.assign(plan_.lanes.size(), 0);
  calls_.BeginStep();
  // The device is idle, so its clock and the host's are read at the same moment here.
  RETURN_IF_ERROR(player_->Begin());
  RETURN_IF_ERROR(AwaitDevice(
      {}, [this] { return IsDone(player_->begin()); }, options_.wait));
  begin_ = NowNanoseconds();
  RETURN_IF_ERROR(player_->Enqueue());
  RETURN_IF_ERROR(Await(player_->end()));
  at_rest_ = true;
  RETURN_IF_ERROR(ReadIntervals());
  return check != nullptr ? CheckLedger() : absl::OkStatus();
}

absl::Status DeviceStep::Await(cudaEvent_t event) {
  calls_.Poll(true);
  const absl::Status status = AwaitDevice(
      {}, [&] { return LookAtLanes(event); }, options_.wait);
  calls_.Poll(false);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("first operation not seen done: ", FirstNotDone(),
                                                  ": ", status.message()));
}

std::vector<DeviceCommunicator*> DeviceStep::Communicators() const {
  std::vector<DeviceCommunicator*> found;
  for (const GroupLink& link : ranks_[0].links) {
    if (link.device != nullptr) found.push_back(link.device);
  }
  return found;
}

absl::StatusOr<bool> DeviceStep::IsDone(cudaEvent_t event) const {
  const cudaError_t error = cudaEventQuery(event);
  if (error == cudaErrorNotReady) return false;
  RETURN_IF_ERROR(ToStatus(error, "device"));
  return true;
}

absl::StatusOr<bool> DeviceStep::LookAtLanes(cudaEvent_t event) {
  if (cancelled_.load()) return absl::AbortedError("the step was cancelled");
  ASSIGN_OR_RETURN(const bool done, IsDone(event));
  // Poll after the query: an error cuts work short, and the streams then look done. After an
  // error, do not poll again before the graphs are destroyed (DeviceCommunicator::Poll).
  if (lost_.ok()) {
    for (DeviceCommunicator* communicator : Communicators()) lost_.Update(communicator->Poll());
  }
  RETURN_IF_ERROR(lost_);
  for (LaneId lane : segments_of_.ids()) RETURN_IF_ERROR(LookAt(lane));
  return done;
}

absl::Status DeviceStep::LookAt(LaneId lane) {
  const std::vector<const Segment*>& segments = segments_of_[lane];
  size_t& next = segments_done_[lane];
  const size_t before = next;
  for (; next < player_->segments(lane); ++next) {
    ASSIGN_OR_RETURN(const bool ended, IsDone(player_->mark(segments[next]->end_mark)));
    if (!ended) break;
    calls_.End(lane, next);
  }
  if (next != before && next < segments.size()) Tell(*segments[next]);
  // The marks of segments that are not enqueued yet are those of an earlier step.
  if (next < player_->segments_begun(lane) && calls_.ExpectsBegin(lane, next)) {
    ASSIGN_OR_RETURN(const bool begun, IsDone(player_->mark(segments[next]->begin_mark)));
    if (begun) calls_.Begin(lane, next);
  }
  return absl::OkStatus();
}

void DeviceStep::Tell(const Segment& segment) const {
  IdVector<LocalRank, bool> told(ranks_.size());
  for (const auto& [rank, op] : segment.ops) {
    const OnBegin& on_begin = ranks_[rank].on_begin;
    if (on_begin && !told[rank]) on_begin(op, NowNanoseconds());
    told[rank] = true;
  }
}

// Lanes are compared in the order of issue, which is that of the segments.
std::string DeviceStep::FirstNotDone() const {
  const Segment* first = nullptr;
  for (LaneId lane : segments_of_.ids()) {
    if (segments_done_[lane] == segments_of_[lane].size()) continue;
    const Segment* segment = segments_of_[lane][segments_done_[lane]];
    if (first == nullptr || segment < first) first = segment;
  }
  if (first == nullptr) return "the copy of the outputs";
  const auto [rank, op] = first->ops[0];
  return PrintOp(ranks_[rank].program, op);
}

absl::Status DeviceStep::ReadIntervals() {
  const auto at = [&](int mark) -> absl::StatusOr<int64_t> {
    float milliseconds = 0;
    RETURN_IF_CUDA_ERROR(
        cudaEventElapsedTime(&milliseconds, player_->begin(), player_->mark(mark)));
    return begin_ + static_cast<int64_t>(double{milliseconds} * 1e6);
  };
  for (const Segment& segment : plan_.segments) {
    Interval interval;
    ASSIGN_OR_RETURN(interval.begin, at(segment.begin_mark));
    ASSIGN_OR_RETURN(interval.end, at(segment.end_mark));
    for (const auto& [rank, op] : segment.ops) intervals_[rank][op] = interval;
  }
  return absl::OkStatus();
}

absl::Status DeviceStep::MakeLedgerCheck() {
  if (options_.cupti.empty()) return absl::OkStatus();
  std::vector<LedgerCheck::Lane> lanes;
  for (LaneId lane : plan_.lanes.ids())
    lanes.push_back({plan_.lanes[lane], lanes_->stream(lane), lanes_->communicates(lane)});
  ASSIGN_OR_RETURN(check_, LedgerCheck::Create(options_.cupti, lanes));
  return absl::OkStatus();
}

absl::Status DeviceStep::CheckLedger() {
  std::vector<std::vector<Interval>> segments(segments_of_.size());
  for (LaneId lane : segments_of_.ids()) {
    for (const Segment* segment : segments_of_[lane]) {
      const auto [rank, op] = segment->ops[0];
      segments[lane.position()].push_back(intervals_[rank][op]);
    }
  }
  return check_->End(std::move(segments));
}

void DeviceStep::ComeToRest() {
  // Graphs must be destroyed before a communicator ends its group, which Poll does after Abort.
  player_->DropGraphs();
  const auto communicators = Communicators();
  for (DeviceCommunicator* communicator : communicators) communicator->Abort();
  DeviceWaitOptions wait = options_.wait;
  wait.timeout = wait.grace;
  const absl::Status status = AwaitDevice(
      {},
      [&]() -> absl::StatusOr<bool> {
        for (DeviceCommunicator* communicator : communicators) communicator->Poll().IgnoreError();
        return player_->AtRest();
      },
      wait);
  // A broken device runs nothing any more; only one that is still busy after the grace period is
  // not at rest.
  at_rest_ = !absl::IsDeadlineExceeded(status);
}

}  // namespace stretto::cuda

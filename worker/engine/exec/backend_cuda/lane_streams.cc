// SPDX-License-Identifier: Apache-2.0

// Makes a stream per lane, with the kernels' object and the wire buffers that it needs, and binds
// the items of an instance to calls. A collective among ranks on this device becomes a kernel of
// our own, others go to the communicator, and two neighbouring operations of one segment that have
// a fused form become one call. An operation that may run beside a collective leaves some SMs free.

#include "worker/engine/exec/backend_cuda/lane_streams.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/exec/bind.h"
#include "worker/engine/program/collective_op.h"

namespace stretto::cuda {
namespace {

// Returns the next item of the same rank in the same segment, or the number of items.
size_t NextOfSegment(const IssuedInstance& instance, size_t position) {
  const Item& item = instance.items[position];
  const Item* at = &item;
  for (size_t next = position; at->end_mark < 0;) {
    do ++next;
    while (instance.items[next].lane != item.lane);
    at = &instance.items[next];
    if (at->ops[0].rank == item.ops[0].rank) return next;
  }
  return instance.items.size();
}

}  // namespace

absl::StatusOr<LaneStreams> LaneStreams::Create(const IssuePlan& plan,
                                                const IdVector<LocalRank, CudaRank>& ranks,
                                                const IdVector<LocalRank, StepMemory>& memory,
                                                const CudaExecutorOptions& options) {
  LaneStreams streams(plan, ranks, memory);
  RETURN_IF_ERROR(streams.CheckGroups());
  if (options.collective_sms > 0) {
    cudaDeviceProp device = {};
    RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&device, options.device));
    streams.sms_under_collectives_ =
        SmsBesideCollectives(device.multiProcessorCount, options.collective_sms);
  }
  for (LaneId lane : plan.lanes.ids()) RETURN_IF_ERROR(streams.MakeLane(lane, options));
  return streams;
}

GroupLink LaneStreams::LinkOf(GroupId group) const {
  const GroupLinks& links = (*ranks_)[0].links;
  return group.position() < links.size() ? links[group.position()] : GroupLink();
}

// All groups of several ranks are on this device (merge_ranks.h).
bool LaneStreams::IsLocal(LocalRank rank, GroupId group) const {
  return ranks_->size() > 1 || (*ranks_)[rank].program.groups[group].ranks.size() == 1;
}

absl::Status LaneStreams::CheckGroups() const {
  const IdVector<GroupId, Group>& groups = (*ranks_)[0].program.groups;
  for (GroupId g : groups.ids()) {
    if (IsLocal(0, g)) continue;
    const size_t size = groups[g].ranks.size();
    const DeviceCommunicator* communicator = LinkOf(g).device;
    if (communicator != nullptr && std::cmp_equal(communicator->size(), size)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "group ", groups[g].name, ": found ",
        communicator ? absl::StrCat("a communicator of ", communicator->size()) : "none",
        ", expected one of ", size, " ranks"));
  }
  return absl::OkStatus();
}

absl::Status LaneStreams::MakeLane(LaneId lane, const CudaExecutorOptions& options) {
  Lane made;
  bool computes = false;
  GroupId wire_group;
  int64_t wire_in = 0, wire_out = 0;
  for (LocalRank r : ranks_->ids()) {
    const Program& program = (*ranks_)[r].program;
    for (const Op& op : program.ops) {
      if (plan_->lane_of[r][op.lane] != lane) continue;
      (op.group >= 0 ? made.communicates : computes) = true;
      if (op.group < 0) continue;
      const Buffer &in = program.buffers[BroughtBy(op)], &out = program.buffers[ReceivedBy(op)];
      if (IsLocal(r, op.group) || WireTypeOf(op, in.dtype) == in.dtype) continue;
      wire_group = op.group;
      // bf16 takes half the bytes of the f32 tensor.
      wire_in = std::max(wire_in, in.bytes() / 2);
      wire_out = std::max(wire_out, out.bytes() / 2);
    }
  }
  // Communication gets the higher priority: a collective whose kernel had to wait for the end of a
  // product would not run under it.
  int least = 0, greatest = 0;
  RETURN_IF_CUDA_ERROR(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  ASSIGN_OR_RETURN(made.stream, MakeStream(computes ? least : greatest));
  if (computes) {
    ASSIGN_OR_RETURN(made.compute, options.make_ops(made.stream.get()));
  }
  if (wire_in > 0) {
    std::vector<DeviceCommunicator*> users;
    const GroupLink link = LinkOf(wire_group);
    if (link.alike) users.push_back(link.device);
    RETURN_IF_ERROR(made.wire.Allocate(wire_in, wire_out, users, options.report));
  }
  lanes_.push_back(std::move(made));
  return absl::OkStatus();
}

void LaneStreams::WeightsChanged() {
  for (Lane& lane : lanes_) {
    if (lane.compute.ops != nullptr) lane.compute.ops->WeightsChanged();
  }
}

std::vector<Enqueue> LaneStreams::Bind(const IssuedInstance& instance) const {
  std::vector<Enqueue> calls(instance.items.size());
  for (size_t k = 0; k < calls.size(); ++k) {
    if (calls[k]) continue;  // done with the one before
    if (IsCollective(OpOf(instance.items[k].ops[0]).kind)) {
      calls[k] = BindCollectiveAt(instance, k);
      continue;
    }
    const size_t next = NextOfSegment(instance, k);
    if (next < calls.size()) calls[k] = BindPairAt(instance, k, next);
    if (calls[k]) {
      calls[next] = [] { return absl::OkStatus(); };
    } else {
      calls[k] = BindComputeAt(instance, k);
    }
  }
  return calls;
}

Enqueue LaneStreams::Checked(std::function<void()> call, CudaOps* ops, bool under) const {
  return [ops, sms = under ? sms_under_collectives_ : 0, call = std::move(call)] {
    ops->LimitSms(sms);
    call();
    if (const char* error = ops->error(); *error != '\0') return absl::InternalError(error);
    return absl::OkStatus();
  };
}

TensorView LaneStreams::Operand(RankOp of, BufferId id) const {
  return (*memory_)[of.rank].Operand(id, units_[of.rank].Find(of.op).micro_batch);
}

std::vector<TensorView> LaneStreams::Operands(RankOp of, const BufferList& ids) const {
  std::vector<TensorView> views;
  for (BufferId id : ids) views.push_back(Operand(of, id));
  return views;
}

Enqueue LaneStreams::BindCollectiveAt(const IssuedInstance& instance, size_t position) const {
  const Item& item = instance.items[position];
  const Op& op = OpOf(item.ops[0]);
  const Lane& lane = lanes_[item.lane];
  GroupTensors tensors;
  for (const RankOp& of : item.ops) {
    tensors.in[tensors.ranks] = Operand(of, BroughtBy(OpOf(of)));
    tensors.out[tensors.ranks] = Operand(of, ReceivedBy(OpOf(of)));
    ++tensors.ranks;
  }
  if (IsLocal(item.ops[0].rank, op.group))
    return BindGroupCollective(op, tensors, lane.stream.get());
  return BindDeviceCollective(op, tensors.in[0], tensors.out[0], LinkOf(op.group).device,
                              &lane.wire, lane.stream.get());
}

Enqueue LaneStreams::BindComputeAt(const IssuedInstance& instance, size_t position) const {
  const Item& item = instance.items[position];
  CudaOps* ops = lanes_[item.lane].compute.ops.get();
  const RankOp of = item.ops[0];
  const Op& op = OpOf(of);
  return Checked(BindCompute(op, Operands(of, op.in), Operands(of, op.out), ops), ops,
                 item.under_collective);
}

Enqueue LaneStreams::BindPairAt(const IssuedInstance& instance, size_t position,
                                size_t next) const {
  const Item& item = instance.items[position];
  CudaOps* ops = lanes_[item.lane].compute.ops.get();
  const RankOp a = item.ops[0], b = instance.items[next].ops[0];
  const UnitOps& units = units_[a.rank];
  if (units.Find(a.op).micro_batch != units.Find(b.op).micro_batch) return {};
  const Op &first = OpOf(a), &second = OpOf(b);
  std::function<void()> pair =
      BindPair(first, second, Operands(a, first.in), Operands(a, first.out), Operands(b, second.in),
               Operands(b, second.out), ops);
  const bool under = item.under_collective || instance.items[next].under_collective;
  return pair ? Checked(std::move(pair), ops, under) : Enqueue();
}

}  // namespace stretto::cuda

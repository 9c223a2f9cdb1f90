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

// Returns the unit's operation that `of` is an expansion of.
const Op& OpOf(const IdVector<LocalRank, CudaRank>& ranks, const IssuedInstance& instance,
               RankOp of) {
  const int first = instance.first[of.rank].value();
  return ranks[of.rank].step.units[instance.unit].ops[of.op - first];
}

std::vector<TensorView> Operands(const StepMemory& memory, const IssuedInstance& instance,
                                 const Op& op, const std::vector<BufferId>& ids) {
  const int role = op.tag.micro_batch;
  const int micro_batch = role < 0 ? role : instance.micro_batches[role];
  std::vector<TensorView> views;
  for (BufferId id : ids) views.push_back(memory.Operand(id, micro_batch));
  return views;
}

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

absl::StatusOr<LaneStreams> LaneStreams::Create(const IdVector<LocalRank, CudaRank>& ranks,
                                                const IdVector<LocalRank, StepMemory>& memory,
                                                const CudaExecutorOptions& options) {
  LaneStreams streams(ranks, memory);
  RETURN_IF_ERROR(streams.CheckGroups());
  if (options.collective_sms > 0) {
    cudaDeviceProp device = {};
    RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&device, options.device));
    streams.sms_under_collectives_ =
        std::max(1, device.multiProcessorCount - options.collective_sms);
  }
  for (LaneId lane : ranks[0].program.lanes.ids()) RETURN_IF_ERROR(streams.MakeLane(lane, options));
  return streams;
}

DeviceCommunicator* LaneStreams::CommunicatorOf(LocalRank rank, GroupId group) const {
  const auto& communicators = (*ranks_)[rank].communicators;
  return group.position() < communicators.size() ? communicators[group.position()] : nullptr;
}

bool LaneStreams::IsLocal(GroupId group) const {
  return (*ranks_)[0].program.groups[group].ranks.size() == ranks_->size();
}

absl::Status LaneStreams::CheckGroups() const {
  const IdVector<GroupId, Group>& groups = (*ranks_)[0].program.groups;
  for (GroupId g : groups.ids()) {
    if (IsLocal(g)) {
      for (const CudaRank& rank : *ranks_) {
        if (rank.program.groups.Has(g) && rank.program.groups[g] == groups[g]) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("group ", groups[g].name,
                         ": found ranks of several groups on one device, expected one"));
      }
      continue;
    }
    const size_t size = groups[g].ranks.size();
    const DeviceCommunicator* communicator = CommunicatorOf(0, g);
    if (ranks_->size() == 1 && communicator != nullptr &&
        std::cmp_equal(communicator->size(), size)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "group ", groups[g].name, ": found ",
        ranks_->size() > 1
            ? absl::StrCat(ranks_->size(), " ranks on one device")
            : (communicator ? absl::StrCat("a communicator of ", communicator->size()) : "none"),
        ", expected one of ", size, " ranks"));
  }
  return absl::OkStatus();
}

absl::Status LaneStreams::MakeLane(LaneId lane, const CudaExecutorOptions& options) {
  const Program& program = (*ranks_)[0].program;
  Lane made;
  bool computes = false;
  GroupId wire_group;
  int64_t wire_in = 0, wire_out = 0;
  for (const Op& op : program.ops) {
    if (op.lane != lane) continue;
    (op.group >= 0 ? made.communicates : computes) = true;
    if (op.group < 0) continue;
    const Buffer &in = program.buffers[op.in[0]], &out = program.buffers[op.out[0]];
    if (IsLocal(op.group) || WireTypeOf(op, in.dtype) == in.dtype) continue;
    wire_group = op.group;
    // bf16 takes half the bytes of the f32 tensor.
    wire_in = std::max(wire_in, in.bytes() / 2);
    wire_out = std::max(wire_out, out.bytes() / 2);
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
    RETURN_IF_ERROR(
        made.wire.Allocate(wire_in, wire_out, CommunicatorOf(0, wire_group), options.report));
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
    if (IsCollective(OpOf(*ranks_, instance, instance.items[k].ops[0]).kind)) {
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

Enqueue LaneStreams::BindCollectiveAt(const IssuedInstance& instance, size_t position) const {
  const Item& item = instance.items[position];
  const Op& op = OpOf(*ranks_, instance, item.ops[0]);
  const Lane& lane = lanes_[item.lane];
  GroupTensors tensors;
  tensors.ranks = std::ssize(item.ops);
  for (const RankOp& of : item.ops) {
    const Op& of_rank = OpOf(*ranks_, instance, of);
    const StepMemory& memory = (*memory_)[of.rank];
    tensors.in[of.rank.position()] = Operands(memory, instance, of_rank, of_rank.in)[0];
    tensors.out[of.rank.position()] = Operands(memory, instance, of_rank, of_rank.out)[0];
  }
  if (IsLocal(op.group)) return BindGroupCollective(op, tensors, lane.stream.get());
  return BindDeviceCollective(op, tensors.in[0], tensors.out[0], CommunicatorOf(0, op.group),
                              &lane.wire, lane.stream.get());
}

Enqueue LaneStreams::BindComputeAt(const IssuedInstance& instance, size_t position) const {
  const Item& item = instance.items[position];
  CudaOps* ops = lanes_[item.lane].compute.ops.get();
  const Op& op = OpOf(*ranks_, instance, item.ops[0]);
  const StepMemory& memory = (*memory_)[item.ops[0].rank];
  return Checked(BindCompute(op, Operands(memory, instance, op, op.in),
                             Operands(memory, instance, op, op.out), ops),
                 ops, item.under_collective);
}

Enqueue LaneStreams::BindPairAt(const IssuedInstance& instance, size_t position,
                                size_t next) const {
  const Item& item = instance.items[position];
  CudaOps* ops = lanes_[item.lane].compute.ops.get();
  const Op &first = OpOf(*ranks_, instance, item.ops[0]),
           &second = OpOf(*ranks_, instance, instance.items[next].ops[0]);
  if (first.tag.micro_batch != second.tag.micro_batch) return {};
  const StepMemory& memory = (*memory_)[item.ops[0].rank];
  std::function<void()> pair = BindPair(first, second, Operands(memory, instance, first, first.in),
                                        Operands(memory, instance, first, first.out),
                                        Operands(memory, instance, second, second.in),
                                        Operands(memory, instance, second, second.out), ops);
  const bool under = item.under_collective || instance.items[next].under_collective;
  return pair ? Checked(std::move(pair), ops, under) : Enqueue();
}

}  // namespace stretto::cuda

#include "worker/engine/exec/backend_cuda/bind_device_collective.h"

#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_cuda/cuda_status.h"

namespace stretto::cuda {
namespace {

absl::Status Call(OpKind kind, DeviceCommunicator* communicator, TensorView in, TensorView out,
                  cudaStream_t stream) {
  switch (kind) {
    case OpKind::kAllReduce:
      return communicator->AllReduce(out, ReduceOp::kSum, stream);
    case OpKind::kAllReduceMax:
      return communicator->AllReduce(out, ReduceOp::kMax, stream);
    case OpKind::kReduceScatter:
      return communicator->ReduceScatter(in, out, stream);
    default:
      STRETTO_CHECK(kind == OpKind::kAllGather);
      return communicator->AllGather(in, out, stream);
  }
}

GroupCall GroupCallOf(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return GroupCall::kAllReduceSum;
    case OpKind::kAllReduceMax:
      return GroupCall::kAllReduceMax;
    case OpKind::kReduceScatter:
      return GroupCall::kReduceScatter;
    default:
      STRETTO_CHECK(kind == OpKind::kAllGather);
      return GroupCall::kAllGather;
  }
}

TensorView NarrowOf(TensorView wide, void* memory) {
  wide.dtype = DType::kBF16;
  wide.data = memory;
  return wide;
}

}  // namespace

absl::Status WireMemory::Allocate(int64_t in_bytes, int64_t out_bytes, DeviceCommunicator* user,
                                  const Report& report) {
  if (in_bytes > 0) {
    ASSIGN_OR_RETURN(in_, CollectiveMemory::Make(static_cast<size_t>(in_bytes), {user}, report));
  }
  if (out_bytes > 0) {
    ASSIGN_OR_RETURN(out_, CollectiveMemory::Make(static_cast<size_t>(out_bytes), {user}, report));
  }
  return absl::OkStatus();
}

bool TravelsNarrow(const Op& op, DType dtype) {
  return !op.attributes.empty() && dtype == DType::kF32 &&
         op.attributes[0] == static_cast<int64_t>(DType::kBF16);
}

Enqueue BindGroupCollective(const Op& op, const GroupTensors& tensors, cudaStream_t stream) {
  const bool narrow = TravelsNarrow(op, tensors.in[0].dtype);
  return [tensors, stream, narrow, call = GroupCallOf(op.kind), name = InfoOf(op.kind).name] {
    return ToStatus(LaunchGroupCall(call, narrow, tensors, stream), name);
  };
}

Enqueue BindDeviceCollective(const Op& op, TensorView in, TensorView out,
                             DeviceCommunicator* communicator, const WireMemory* wire,
                             cudaStream_t stream) {
  const OpKind kind = op.kind;
  if (!TravelsNarrow(op, in.dtype)) {
    return [=] { return Call(kind, communicator, in, out, stream); };
  }
  return [=]() -> absl::Status {
    const TensorView narrow_in = NarrowOf(in, wire->in());
    const bool in_place = kind == OpKind::kAllReduce;
    const TensorView narrow_out = in_place ? narrow_in : NarrowOf(out, wire->out());
    RETURN_IF_CUDA_ERROR(LaunchConvert(in, narrow_in, stream));
    RETURN_IF_ERROR(Call(kind, communicator, narrow_in, narrow_out, stream));
    RETURN_IF_CUDA_ERROR(LaunchConvert(narrow_out, out, stream));
    return absl::OkStatus();
  };
}

}  // namespace stretto::cuda

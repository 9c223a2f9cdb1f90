// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/bind_device_collective.h"

#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_cuda/cuda_status.h"
#include "worker/engine/program/collective_op.h"

namespace stretto::cuda {
namespace {

TensorView NarrowOf(TensorView wide, void* memory) {
  wide.dtype = DType::kBF16;
  wide.data = memory;
  return wide;
}

}  // namespace

absl::Status WireMemory::Allocate(int64_t in_bytes, int64_t out_bytes,
                                  const std::vector<DeviceCommunicator*>& users,
                                  const Report& report) {
  if (in_bytes > 0) {
    ASSIGN_OR_RETURN(in_, CollectiveMemory::Make(in_bytes, users, report));
  }
  if (out_bytes > 0) {
    ASSIGN_OR_RETURN(out_, CollectiveMemory::Make(out_bytes, users, report));
  }
  return absl::OkStatus();
}

Enqueue BindGroupCollective(const Op& op, const GroupTensors& tensors, cudaStream_t stream) {
  const DType dtype = tensors.in[0].dtype;
  const OpInfo& info = InfoOf(op.kind);
  return [tensors, stream, narrow = WireTypeOf(op, dtype) != dtype, &info] {
    return ToStatus(LaunchGroupCall(info.collective, info.reduction, narrow, tensors, stream),
                    info.name);
  };
}

Enqueue BindDeviceCollective(const Op& op, TensorView in, TensorView out,
                             DeviceCommunicator* communicator, const WireMemory* wire,
                             cudaStream_t stream) {
  const Collective call = CollectiveOf(op, in, out);
  if (WireTypeOf(op, in.dtype) == in.dtype) {
    return [=] { return communicator->Run(call, stream); };
  }
  const bool brings = !op.in.empty(), gets = !op.out.empty();
  return [=]() -> absl::Status {
    Collective narrow = call;
    narrow.in = NarrowOf(in, wire->in());
    narrow.out = call.info().in_place ? narrow.in : NarrowOf(out, wire->out());
    if (brings) RETURN_IF_CUDA_ERROR(LaunchConvert(in, narrow.in, stream));
    RETURN_IF_ERROR(communicator->Run(narrow, stream));
    if (gets) RETURN_IF_CUDA_ERROR(LaunchConvert(narrow.out, out, stream));
    return absl::OkStatus();
  };
}

}  // namespace stretto::cuda

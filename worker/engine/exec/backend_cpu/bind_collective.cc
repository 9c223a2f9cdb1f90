#include "worker/engine/exec/backend_cpu/bind_collective.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

absl::Status Call(OpKind kind, Communicator* communicator, TensorView in, TensorView out) {
  switch (kind) {
    case OpKind::kAllReduce:
      return communicator->AllReduce(out, ReduceOp::kSum);
    case OpKind::kAllReduceMax:
      return communicator->AllReduce(out, ReduceOp::kMax);
    case OpKind::kReduceScatter:
      return communicator->ReduceScatter(in, out);
    default:
      STRETTO_CHECK(kind == OpKind::kAllGather);
      return communicator->AllGather(in, out);
  }
}

TensorView Narrow(const TensorView& wide, std::vector<BF16>* memory) {
  TensorView narrow = wide;
  narrow.dtype = DType::kBF16;
  narrow.data = memory->data();
  return narrow;
}

}  // namespace

std::function<absl::Status()> BindCollective(const Op& op, TensorView in, TensorView out,
                                             Communicator* communicator, WireBuffers* wire) {
  const OpKind kind = op.kind;
  const bool narrow = !op.attributes.empty() && in.dtype == DType::kF32 &&
                      op.attributes[0] == static_cast<int64_t>(DType::kBF16);
  if (!narrow) return [=] { return Call(kind, communicator, in, out); };
  wire->in.resize(std::max(wire->in.size(), static_cast<size_t>(in.count())));
  wire->out.resize(std::max(wire->out.size(), static_cast<size_t>(out.count())));
  return [=] {
    const TensorView narrow_in = Narrow(in, &wire->in);
    const bool in_place = kind == OpKind::kAllReduce;
    const TensorView narrow_out = in_place ? narrow_in : Narrow(out, &wire->out);
    const float* from = in.as<float>();
    std::transform(from, from + in.count(), narrow_in.as<BF16>(), ToBF16);
    RETURN_IF_ERROR(Call(kind, communicator, narrow_in, narrow_out));
    const BF16* sum = narrow_out.as<BF16>();
    std::transform(sum, sum + out.count(), out.as<float>(), [](BF16 x) { return ToFloat(x); });
    return absl::OkStatus();
  };
}

}  // namespace stretto

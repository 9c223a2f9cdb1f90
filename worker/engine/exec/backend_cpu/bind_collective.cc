// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cpu/bind_collective.h"

#include <algorithm>

#include "proto/base/status_macros.h"
#include "worker/engine/program/collective_op.h"

namespace stretto {
namespace {

TensorView Narrow(const TensorView& wide, std::vector<BF16>* memory) {
  TensorView narrow = wide;
  narrow.dtype = DType::kBF16;
  narrow.data = memory->data();
  return narrow;
}

}  // namespace

Collective WireCallOf(const Op& op, TensorView in, TensorView out) {
  in.dtype = out.dtype = WireTypeOf(op, in.dtype);
  in.data = out.data = nullptr;
  return CollectiveOf(op, in, out);
}

CollectiveCall BindCollective(const Op& op, TensorView in, TensorView out,
                              Communicator* communicator, WireBuffers* wire) {
  const Collective call = CollectiveOf(op, in, out);
  if (WireTypeOf(op, in.dtype) == in.dtype) {
    return [=](const Collective* next, absl::FunctionRef<void()> posted) {
      return communicator->RunTelling(call, next, posted);
    };
  }
  wire->in.resize(std::max<size_t>(wire->in.size(), in.count()));
  wire->out.resize(std::max<size_t>(wire->out.size(), out.count()));
  const bool brings = !op.in.empty(), gets = !op.out.empty();
  // Binding another operation may move the buffers, so each call reads their present addresses.
  return [=](const Collective* next, absl::FunctionRef<void()> posted) {
    Collective narrow = call;
    narrow.in = Narrow(in, &wire->in);
    narrow.out = call.info().in_place ? narrow.in : Narrow(out, &wire->out);
    const float* from = in.as<float>();
    if (brings) std::transform(from, from + in.count(), narrow.in.as<BF16>(), ToBF16);
    RETURN_IF_ERROR(communicator->RunTelling(narrow, next, posted));
    if (!gets) return absl::OkStatus();
    const BF16* result = narrow.out.as<BF16>();
    std::transform(result, result + out.count(), out.as<float>(),
                   [](BF16 x) { return ToFloat(x); });
    return absl::OkStatus();
  };
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/collective_op.h"

#include "proto/base/check.h"

namespace stretto {

Collective CollectiveOf(const Op& op, const TensorView& in, const TensorView& out) {
  STRETTO_CHECK(IsCollective(op.kind));
  const OpInfo& info = InfoOf(op.kind);
  return {.kind = info.collective, .in = in, .out = out, .op = info.reduction};
}

DType WireTypeOf(const Op& op, DType dtype) {
  STRETTO_CHECK(IsCollective(op.kind));
  const bool narrow = dtype == DType::kF32 && !op.attributes.empty() &&
                      op.attributes[0] == static_cast<int64_t>(DType::kBF16);
  return narrow ? DType::kBF16 : dtype;
}

const Buffer& WholeTensorOf(const Program& program, const Op& op) {
  STRETTO_CHECK(IsCollective(op.kind));
  const Buffer& in = program.buffers.at(op.in.at(0));
  const Buffer& out = program.buffers.at(op.out.at(0));
  return in.count() > out.count() ? in : out;
}

}  // namespace stretto

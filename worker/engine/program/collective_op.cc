// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/collective_op.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "worker/engine/program/text.h"

namespace stretto {

BufferId BroughtBy(const Op& op) { return op.in.empty() ? op.out.at(0) : op.in[0]; }
BufferId ReceivedBy(const Op& op) { return op.out.empty() ? op.in.at(0) : op.out[0]; }

std::string CallOf(const Program& program, const Op& op) {
  const OpInfo& info = InfoOf(op.kind);
  const Buffer& brought = program.buffers.at(BroughtBy(op));
  return absl::StrCat(IsTransfer(op.kind) ? "transfer" : info.name, " ", PrintTag(op.tag), " ",
                      absl::StrJoin(op.attributes, ","), " ", NameOf(brought.dtype), " ",
                      brought.count());
}

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
  const Buffer& in = program.buffers.at(BroughtBy(op));
  const Buffer& out = program.buffers.at(ReceivedBy(op));
  return in.count() > out.count() ? in : out;
}

}  // namespace stretto

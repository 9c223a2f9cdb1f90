// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/work.h"

#include "worker/engine/program/collective_op.h"
#include "worker/engine/program/operands.h"

namespace stretto {
namespace {

const Buffer& BufferOf(const Program& program, BufferId id) { return program.buffers.at(id); }

double OperandBytes(const Program& program, const Op& op) {
  double bytes = 0;
  for (const BufferList* ids : {&op.in, &op.out}) {
    for (BufferId id : *ids) bytes += static_cast<double>(BufferOf(program, id).bytes());
  }
  return bytes;
}

}  // namespace

Work WorkOf(const Program& program, const Op& op) {
  if (IsCollective(op.kind)) return {};
  Work work{.flops = 0, .bytes = OperandBytes(program, op)};
  const OpInfo& info = InfoOf(op.kind);
  if (info.work != nullptr) info.work(OperandsOf(program, op), &work);
  return work;
}

int64_t WireBytes(const Program& program, const Op& op) {
  const Buffer& whole = WholeTensorOf(program, op);
  return whole.count() * static_cast<int64_t>(SizeOf(WireTypeOf(op, whole.dtype)));
}

}  // namespace stretto

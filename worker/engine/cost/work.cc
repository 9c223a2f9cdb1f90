#include "worker/engine/cost/work.h"

#include <cstring>

#include "proto/base/check.h"
#include "worker/engine/program/collective_op.h"

namespace stretto {
namespace {

const Buffer& BufferOf(const Program& program, int id) {
  return program.buffers.at(static_cast<size_t>(id));
}

// The value of an attribute, which the kind must have.
int64_t Attribute(const Op& op, const char* name) {
  const std::vector<const char*>& names = InfoOf(op.kind).attributes;
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::strcmp(names[i], name) == 0) return op.attributes.at(i);
  }
  STRETTO_CHECK(false);
}

double Columns(const Buffer& buffer) { return static_cast<double>(buffer.shape.back()); }
double Elements(const Buffer& buffer) { return static_cast<double>(buffer.count()); }
double Bytes(const Buffer& buffer) { return static_cast<double>(buffer.bytes()); }

double OperandBytes(const Program& program, const Op& op) {
  double bytes = 0;
  for (const std::vector<int>* ids : {&op.in, &op.out}) {
    for (int id : *ids) bytes += Bytes(BufferOf(program, id));
  }
  return bytes;
}

// Multiply-adds of one product of queries with keys, or of probabilities with values.
double CausalProduct(const Program& program, const Op& op) {
  const double sequence = static_cast<double>(Attribute(op, "sequence"));
  const double heads = static_cast<double>(Attribute(op, "heads"));
  const double head_dim = static_cast<double>(Attribute(op, "head_dim"));
  // The context, or its gradient: [tokens, heads * head_dim].
  const Buffer& context =
      BufferOf(program, op.kind == OpKind::kAttention ? op.out.at(0) : op.in.at(0));
  const double tokens = Elements(context) / (heads * head_dim);
  return tokens * (sequence + 1) / 2 * heads * head_dim;
}

// Queries and keys: what rotary reads and writes of qkv.
double RotaryShare(const Op& op) {
  const double heads = static_cast<double>(Attribute(op, "heads"));
  const double kv_heads = static_cast<double>(Attribute(op, "kv_heads"));
  return (heads + kv_heads) / (heads + 2 * kv_heads);
}

}  // namespace

Work WorkOf(const Program& program, const Op& op) {
  if (IsCollective(op.kind)) return {};
  Work work{.flops = 0, .bytes = OperandBytes(program, op)};
  switch (op.kind) {
    case OpKind::kGemm: {  // y[n,c] = x[n,k] w[c,k]
      const Buffer& x = BufferOf(program, op.in.at(0));
      const Buffer& y = BufferOf(program, op.out.at(0));
      work.flops = 2 * Elements(y) * Columns(x);
      break;
    }
    case OpKind::kGemmDgrad: {  // dx[n,kp] = dy[n,c] w[c, some kp columns]
      const Buffer& dy = BufferOf(program, op.in.at(0));
      const Buffer& w = BufferOf(program, op.in.at(1));
      const Buffer& dx = BufferOf(program, op.out.at(0));
      work.flops = 2 * Elements(dx) * Columns(dy);
      work.bytes -= Bytes(w) * (1 - Columns(dx) / Columns(w));
      break;
    }
    case OpKind::kGemmWgrad: {  // dw[c,k] += dy[n,c] x[n,k]
      const Buffer& x = BufferOf(program, op.in.at(1));
      const Buffer& dw = BufferOf(program, op.out.at(0));
      work.flops = 2 * Elements(dw) * Elements(x) / Columns(x);
      break;
    }
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
      work.flops = 2 * CausalProduct(program, op) * (op.kind == OpKind::kAttention ? 2 : 5);
      work.bytes -= Bytes(BufferOf(program, op.out.back()));  // scratch
      break;
    case OpKind::kEmbed: {
      const Buffer& y = BufferOf(program, op.out.at(0));
      work.bytes = Bytes(BufferOf(program, op.in.at(0))) + 2 * Bytes(y);
      break;
    }
    case OpKind::kEmbedGrad: {  // the rows of dtable are f32
      const Buffer& dx = BufferOf(program, op.in.at(1));
      work.bytes = Bytes(BufferOf(program, op.in.at(0))) + Bytes(dx) + 8 * Elements(dx);
      break;
    }
    case OpKind::kRotary:
      work.bytes *= RotaryShare(op);
      break;
    default:
      break;
  }
  return work;
}

int64_t WireBytes(const Program& program, const Op& op) {
  const Buffer& whole = WholeTensorOf(program, op);
  return whole.count() * static_cast<int64_t>(SizeOf(WireTypeOf(op, whole.dtype)));
}

}  // namespace stretto

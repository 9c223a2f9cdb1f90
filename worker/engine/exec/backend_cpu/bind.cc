#include "worker/engine/exec/backend_cpu/bind.h"

#include <utility>

#include "proto/base/check.h"

namespace stretto {
namespace {

using Views = std::vector<TensorView>;

TensorView OrNone(const Views& views, size_t index) {
  return index < views.size() ? views[index] : TensorView{};
}

VocabShard VocabOf(const Op& op) { return {op.attributes[0], op.attributes[1]}; }

AttentionShape AttentionOf(const Op& op) {
  return {op.attributes[0], op.attributes[1], op.attributes[2]};
}

std::function<void()> BindLinear(const Op& op, Views in, Views out, Ops* ops) {
  switch (op.kind) {
    case OpKind::kGemm:
      return [=] { ops->Gemm(in[0], in[1], OrNone(in, 2), out[0]); };
    case OpKind::kGemmDgrad:
      return [=] { ops->GemmDgrad(in[0], in[1], out[0]); };
    case OpKind::kGemmWgrad:
      return [=] { ops->GemmWgrad(in[0], in[1], out[0]); };
    default:
      return [=] { ops->BiasGrad(in[0], out[0]); };
  }
}

std::function<void()> BindEmbedding(const Op& op, Views in, Views out, Ops* ops) {
  switch (op.kind) {
    case OpKind::kEmbed:
      return [=, vocab = VocabOf(op)] { ops->Embed(in[0], in[1], vocab, out[0]); };
    case OpKind::kEmbedGrad:
      return [=, vocab = VocabOf(op)] { ops->EmbedGrad(in[0], in[1], vocab, out[0]); };
    case OpKind::kAddPosition:
      return [=] { ops->AddPosition(in[0], out[0]); };
    default:
      return [=] { ops->PositionGrad(in[0], out[0]); };
  }
}

std::function<void()> BindCrossEntropy(const Op& op, Views in, Views out, Ops* ops) {
  switch (op.kind) {
    case OpKind::kCrossEntropyMax:
      return [=, vocab = VocabOf(op)] { ops->CrossEntropyMax(in[0], vocab, out[0]); };
    case OpKind::kCrossEntropySum:
      return [=, vocab = VocabOf(op)] { ops->CrossEntropySum(in[0], in[1], in[2], vocab, out[0]); };
    case OpKind::kCrossEntropyLoss:
      return [=] { ops->CrossEntropyLoss(in[0], out[0]); };
    default:
      return [=, vocab = VocabOf(op)] {
        ops->CrossEntropyGrad(in[0], in[1], in[2], in[3], vocab, out[0]);
      };
  }
}

std::function<void()> BindOptimizer(const Op& op, Views in, Views out, Ops* ops) {
  switch (op.kind) {
    case OpKind::kZero:
      return [=] { ops->Zero(out[0]); };
    case OpKind::kSumSquares:
      return [=] { ops->SumSquares(in[0], out[0]); };
    case OpKind::kSum:
      return [=] { ops->Sum(in[0], out[0]); };
    case OpKind::kClip:
      return [=] { ops->Clip(in[0], in[1], out[0]); };
    default:
      // Without a weight of its own the master is the weight.
      return [=, decay = op.attributes[0] != 0, weight = out.size() > 3 ? out[3] : out[0]] {
        ops->AdamW(in[0], in[1], in[2], decay, out[0], out[1], out[2], weight);
      };
  }
}

}  // namespace

std::function<void()> BindCompute(const Op& op, Views in, Views out, Ops* ops) {
  switch (op.kind) {
    case OpKind::kGemm:
    case OpKind::kGemmDgrad:
    case OpKind::kGemmWgrad:
    case OpKind::kBiasGrad:
      return BindLinear(op, std::move(in), std::move(out), ops);
    case OpKind::kEmbed:
    case OpKind::kEmbedGrad:
    case OpKind::kAddPosition:
    case OpKind::kPositionGrad:
      return BindEmbedding(op, std::move(in), std::move(out), ops);
    case OpKind::kLayerNorm:
      return [=] { ops->LayerNorm(in[0], in[1], in[2], out[0], out[1]); };
    case OpKind::kLayerNormDgrad:
      return [=] { ops->LayerNormDgrad(in[0], in[1], in[2], in[3], OrNone(in, 4), out[0]); };
    case OpKind::kLayerNormWgrad:
      return [=] { ops->LayerNormWgrad(in[0], in[1], in[2], out[0], out[1]); };
    case OpKind::kBiasResidual:
      return [=] { ops->BiasResidual(in[0], in[1], in[2], out[0]); };
    case OpKind::kGelu:
      return [=] { ops->Gelu(in[0], out[0]); };
    case OpKind::kGeluGrad:
      return [=] { ops->GeluGrad(in[0], in[1], out[0]); };
    case OpKind::kAttention:
      return [=, shape = AttentionOf(op)] { ops->Attention(shape, in[0], out[0], out[1], out[2]); };
    case OpKind::kAttentionGrad:
      return [=, shape = AttentionOf(op)] {
        ops->AttentionGrad(shape, in[0], in[1], in[2], in[3], out[0], out[1]);
      };
    case OpKind::kCrossEntropyMax:
    case OpKind::kCrossEntropySum:
    case OpKind::kCrossEntropyLoss:
    case OpKind::kCrossEntropyGrad:
      return BindCrossEntropy(op, std::move(in), std::move(out), ops);
    case OpKind::kZero:
    case OpKind::kSumSquares:
    case OpKind::kSum:
    case OpKind::kClip:
    case OpKind::kAdamW:
      return BindOptimizer(op, std::move(in), std::move(out), ops);
    case OpKind::kAllReduce:
    case OpKind::kAllReduceMax:
      break;
  }
  STRETTO_CHECK(false && "a collective is no compute operation");
  return nullptr;
}

}  // namespace stretto

// Turns an operation into a call: its attributes become the arguments, its operands the tensors,
// captured in a function that a lane calls in every step. BindPair fuses two neighbours for which
// the kernels have one call.

#include "worker/engine/exec/bind.h"

#include <cstddef>
#include <utility>

#include "proto/base/check.h"

namespace stretto {
namespace {

using Views = std::vector<TensorView>;

TensorView OrNone(const Views& views, size_t index) {
  return index < views.size() ? views[index] : TensorView{};
}

bool Overlap(const TensorView& a, const TensorView& b) {
  const auto from = [](const TensorView& view) { return static_cast<const std::byte*>(view.data); };
  return from(a) < from(b) + b.bytes() && from(b) < from(a) + a.bytes();
}

VocabShard VocabOf(const Op& op) { return {op.attributes[0], op.attributes[1]}; }

AttentionShape AttentionOf(const Op& op) {
  return {.sequence_length = op.attributes[0],
          .heads = op.attributes[1],
          .kv_heads = op.attributes[2],
          .head_dim = op.attributes[3],
          .first_head = op.attributes[4]};
}

// From the three attributes that start at `first`.
Dropout DropoutOf(const Op& op, size_t first) {
  return {.threshold = op.attributes[first],
          .site = op.attributes[first + 1],
          .first_token = op.attributes[first + 2]};
}

float EpsilonOf(const Op& op) {
  return op.attributes[0] == 0 ? kNormEpsilon : static_cast<float>(RealOf(op.attributes[0]));
}

// From the attributes of a rotary operation that follow its shape.
RotarySpeed SpeedOf(const Op& op) {
  return {.base = op.attributes[5],
          .scaling = {.kind = static_cast<RotaryScaling::Kind>(op.attributes[7]),
                      .factor = RealOf(op.attributes[8]),
                      .low_frequency_factor = RealOf(op.attributes[9]),
                      .high_frequency_factor = RealOf(op.attributes[10]),
                      .original_sequence_length = static_cast<int>(op.attributes[11])}};
}

std::function<void()> BindLinear(const Op& op, Views in, Views out, Ops* ops) {
  switch (op.kind) {
    case OpKind::kGemm:
      return [=] { ops->Gemm(in[0], in[1], OrNone(in, 2), out[0]); };
    case OpKind::kGemmDgrad:
      return [=, column = op.attributes[0]] { ops->GemmDgrad(in[0], in[1], column, out[0]); };
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
      return [=, first = op.attributes[0]] { ops->AddPosition(in[0], first, out[0]); };
    default:
      return [=, first = op.attributes[0]] { ops->PositionGrad(in[0], first, out[0]); };
  }
}

std::function<void()> BindNorm(const Op& op, Views in, Views out, Ops* ops) {
  switch (op.kind) {
    case OpKind::kLayerNorm:
      return [=, epsilon = EpsilonOf(op)] {
        ops->LayerNorm(in[0], in[1], in[2], epsilon, out[0], out[1]);
      };
    case OpKind::kLayerNormDgrad:
      return [=] { ops->LayerNormDgrad(in[0], in[1], in[2], in[3], OrNone(in, 4), out[0]); };
    case OpKind::kLayerNormWgrad:
      return [=] { ops->LayerNormWgrad(in[0], in[1], in[2], out[0], out[1]); };
    case OpKind::kRmsNorm:
      return [=, epsilon = EpsilonOf(op)] { ops->RmsNorm(in[0], in[1], epsilon, out[0], out[1]); };
    case OpKind::kRmsNormDgrad:
      return [=] { ops->RmsNormDgrad(in[0], in[1], in[2], in[3], OrNone(in, 4), out[0]); };
    default:
      return [=] { ops->RmsNormWgrad(in[0], in[1], in[2], out[0]); };
  }
}

std::function<void()> BindElementWise(const Op& op, Views in, Views out, Ops* ops) {
  switch (op.kind) {
    case OpKind::kBiasResidual:
      return [=, drop = DropoutOf(op, 0)] {
        ops->BiasResidual(in[0], OrNone(in, 3), in[1], drop, in[2], out[0]);
      };
    case OpKind::kDropout:
      return [=, drop = DropoutOf(op, 0)] { ops->DropElements(in[0], drop, in[1], out[0]); };
    case OpKind::kGelu:
      return [=] { ops->Gelu(in[0], out[0]); };
    case OpKind::kGeluGrad:
      return [=] { ops->GeluGrad(in[0], in[1], out[0]); };
    case OpKind::kSwiGlu:
      return [=] { ops->SwiGlu(in[0], out[0]); };
    default:
      return [=] { ops->SwiGluGrad(in[0], in[1], out[0]); };
  }
}

std::function<void()> BindAttention(const Op& op, Views in, Views out, Ops* ops) {
  const AttentionShape shape = AttentionOf(op);
  switch (op.kind) {
    case OpKind::kRotary:
      return [=, speed = SpeedOf(op), inverse = op.attributes[6] != 0] {
        ops->Rotary(shape, speed, inverse, out[0]);
      };
    case OpKind::kAttention:
      return [=, drop = DropoutOf(op, 5)] {
        ops->Attention(shape, drop, in[1], in[0], out[0], out[1], out[2]);
      };
    default:
      return [=, drop = DropoutOf(op, 5)] {
        ops->AttentionGrad(shape, drop, in[4], in[0], in[1], in[2], in[3], out[0], out[1]);
      };
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
    case OpKind::kLayerNormDgrad:
    case OpKind::kLayerNormWgrad:
    case OpKind::kRmsNorm:
    case OpKind::kRmsNormDgrad:
    case OpKind::kRmsNormWgrad:
      return BindNorm(op, std::move(in), std::move(out), ops);
    case OpKind::kBiasResidual:
    case OpKind::kDropout:
    case OpKind::kGelu:
    case OpKind::kGeluGrad:
    case OpKind::kSwiGlu:
    case OpKind::kSwiGluGrad:
      return BindElementWise(op, std::move(in), std::move(out), ops);
    case OpKind::kRotary:
    case OpKind::kAttention:
    case OpKind::kAttentionGrad:
      return BindAttention(op, std::move(in), std::move(out), ops);
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
    case OpKind::kReduceScatter:
    case OpKind::kAllGather:
      break;
  }
  STRETTO_CHECK(false && "a collective is no compute operation");
  return nullptr;
}

std::function<void()> BindPair(const Op& first, const Op& second,
                               const std::vector<TensorView>& first_in,
                               const std::vector<TensorView>& first_out,
                               const std::vector<TensorView>& second_in,
                               const std::vector<TensorView>& second_out, Ops* ops) {
  if (first.kind != OpKind::kBiasResidual || second.in.empty() || second.in[0] != first.out[0])
    return {};
  for (const TensorView& written : second_out) {
    for (const TensorView& read : first_in) {
      if (Overlap(written, read)) return {};
    }
  }
  const TensorView r = first_in[0], x = first_in[1], keys = first_in[2], bias = OrNone(first_in, 3),
                   sum = first_out[0];
  const Dropout drop = DropoutOf(first, 0);
  switch (second.kind) {
    case OpKind::kLayerNorm:
      return [=, in = second_in, out = second_out, epsilon = EpsilonOf(second)] {
        ops->BiasResidualLayerNorm(r, bias, x, drop, keys, sum, in[1], in[2], epsilon, out[0],
                                   out[1]);
      };
    case OpKind::kRmsNorm:
      return [=, in = second_in, out = second_out, epsilon = EpsilonOf(second)] {
        ops->BiasResidualRmsNorm(r, bias, x, drop, keys, sum, in[1], epsilon, out[0], out[1]);
      };
    default:
      return {};
  }
}

}  // namespace stretto

#include "worker/engine/program/op_kind.h"

#include <array>

#include "proto/base/check.h"

namespace stretto {
namespace {

using K = OpKind;
constexpr Role kC = Role::kChain, kW = Role::kWeightGradient, kM = Role::kCollective;

const std::vector<OpInfo>& Table() {
  static const auto* table = new std::vector<OpInfo>{
      {K::kGemm, "gemm", {"x", "w", "bias?"}, {"y"}, {}, kC},
      {K::kGemmDgrad, "gemm_dgrad", {"dy", "w"}, {"dx"}, {}, kC},
      {K::kGemmWgrad, "gemm_wgrad", {"dy", "x", "=dw"}, {"=dw"}, {}, kW},
      {K::kBiasGrad, "bias_grad", {"dy", "=db"}, {"=db"}, {}, kW},
      {K::kEmbed, "embed", {"tokens", "table"}, {"y"}, {"start", "size"}, kC},
      {K::kEmbedGrad,
       "embed_grad",
       {"tokens", "dx", "=dtable"},
       {"=dtable"},
       {"start", "size"},
       kW},
      {K::kAddPosition, "add_position", {"position", "=x"}, {"=x"}, {}, kC},
      {K::kPositionGrad, "position_grad", {"dx", "=dposition"}, {"=dposition"}, {}, kW},
      {K::kLayerNorm, "layer_norm", {"x", "w", "b"}, {"y", "stats"}, {}, kC},
      {K::kLayerNormDgrad,
       "layer_norm_dgrad",
       {"dy", "x", "w", "stats", "residual?"},
       {"dx"},
       {},
       kC},
      {K::kLayerNormWgrad,
       "layer_norm_wgrad",
       {"dy", "x", "stats", "=dw", "=db"},
       {"=dw", "=db"},
       {},
       kW},
      {K::kBiasResidual, "bias_residual", {"r", "bias", "x"}, {"y"}, {}, kC},
      {K::kGelu, "gelu", {"u"}, {"a"}, {}, kC},
      {K::kGeluGrad, "gelu_grad", {"u", "da"}, {"du"}, {}, kC},
      {K::kAttention,
       "attention",
       {"qkv"},
       {"context", "lse", "scratch"},
       {"sequence", "heads", "head_dim"},
       kC},
      {K::kAttentionGrad,
       "attention_grad",
       {"dcontext", "qkv", "context", "lse"},
       {"dqkv", "scratch"},
       {"sequence", "heads", "head_dim"},
       kC},
      {K::kCrossEntropyMax, "cross_entropy_max", {"logits"}, {"max"}, {"start", "size"}, kC},
      {K::kCrossEntropySum,
       "cross_entropy_sum",
       {"logits", "max", "targets"},
       {"sums"},
       {"start", "size"},
       kC},
      {K::kCrossEntropyLoss, "cross_entropy_loss", {"sums"}, {"loss"}, {}, kC},
      {K::kCrossEntropyGrad,
       "cross_entropy_grad",
       {"max", "sums", "targets", "scalars", "=logits"},
       {"=logits"},
       {"start", "size"},
       kC},
      {K::kZero, "zero", {}, {"x"}, {}, kC},
      {K::kSumSquares, "sum_squares", {"x"}, {"out"}, {}, kC},
      {K::kSum, "sum", {"parts"}, {"out"}, {}, kC},
      {K::kClip, "clip", {"sum_squares", "scalars"}, {"state"}, {}, kC},
      {K::kAdamW,
       "adamw",
       {"grad", "state", "scalars", "=master", "=m", "=v"},
       {"=master", "=m", "=v", "weight?"},
       {"decay"},
       kC},
      {K::kAllReduce, "all_reduce", {"=x"}, {"=x"}, {}, kM},
      {K::kAllReduceMax, "all_reduce_max", {"=x"}, {"=x"}, {}, kM},
  };
  return *table;
}

}  // namespace

const OpInfo& InfoOf(OpKind kind) {
  const OpInfo& info = Table()[static_cast<size_t>(kind)];
  STRETTO_CHECK(info.kind == kind);
  return info;
}

const OpInfo* FindOp(absl::string_view name) {
  for (const OpInfo& info : Table()) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

}  // namespace stretto

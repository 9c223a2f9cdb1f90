// One row per kind of operation: its name in text, operands ("=x" is read and written, "x?" may be
// absent), attributes ("~x" is a real number) and role. Collectives take name and operands from the
// table of collectives. InfoOf looks a row up by its kind, so the order of rows is that of the
// enum.

#include "worker/engine/program/op_kind.h"

#include <utility>

#include "proto/base/check.h"

namespace stretto {
namespace {

using K = OpKind;
constexpr Role kC = Role::kChain, kW = Role::kWeightGradient;

// Operands and name are those of the collective. What is in place is one operand, read and written.
OpInfo Collectively(K kind, CollectiveKind collective, std::vector<const char*> attributes) {
  const CollectiveInfo& info = InfoOf(collective);
  const char *in = info.in_place ? "=x" : "x", *out = info.in_place ? "=x" : "y";
  STRETTO_CHECK(info.on_device);
  return {kind, info.name, {in}, {out}, std::move(attributes), Role::kCollective, collective};
}

OpInfo AllReduceMax() {
  OpInfo info = Collectively(K::kAllReduceMax, CollectiveKind::kAllReduce, {});
  info.name = "all_reduce_max";
  info.reduction = ReduceOp::kMax;
  return info;
}

const std::vector<OpInfo>& Table() {
  using Names = std::vector<const char*>;
  const Names vocab = {"start", "size"};
  const Names drop = {"drop", "site", "first"};
  const Names heads = {"sequence", "heads", "kv_heads", "head_dim", "first_head"};
  const Names attention = {"sequence",   "heads", "kv_heads", "head_dim",
                           "first_head", "drop",  "site",     "first"};
  static const auto* table = new std::vector<OpInfo>{
      {K::kGemm, "gemm", {"x", "w", "bias?"}, {"y"}, {}, kC},
      {K::kGemmDgrad, "gemm_dgrad", {"dy", "w"}, {"dx"}, {"column"}, kC},
      {K::kGemmWgrad, "gemm_wgrad", {"dy", "x", "=dw"}, {"=dw"}, {}, kW},
      {K::kBiasGrad, "bias_grad", {"dy", "=db"}, {"=db"}, {}, kW},
      {K::kEmbed, "embed", {"tokens", "table"}, {"y"}, vocab, kC},
      {K::kEmbedGrad, "embed_grad", {"tokens", "dx", "=dtable"}, {"=dtable"}, vocab, kW},
      {K::kAddPosition, "add_position", {"position", "=x"}, {"=x"}, {"first"}, kC},
      {K::kPositionGrad, "position_grad", {"dx", "=dposition"}, {"=dposition"}, {"first"}, kW},
      {K::kLayerNorm, "layer_norm", {"x", "w", "b"}, {"y", "stats"}, {"~epsilon"}, kC},
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
      {K::kRmsNorm, "rms_norm", {"x", "w"}, {"y", "rstd"}, {"~epsilon"}, kC},
      {K::kRmsNormDgrad, "rms_norm_dgrad", {"dy", "x", "w", "rstd", "residual?"}, {"dx"}, {}, kC},
      {K::kRmsNormWgrad, "rms_norm_wgrad", {"dy", "x", "rstd", "=dw"}, {"=dw"}, {}, kW},
      {K::kBiasResidual, "bias_residual", {"r", "x", "keys", "bias?"}, {"y"}, drop, kC},
      {K::kDropout, "dropout", {"x", "keys"}, {"y"}, drop, kC},
      {K::kGelu, "gelu", {"u"}, {"a"}, {}, kC},
      {K::kGeluGrad, "gelu_grad", {"u", "da"}, {"du"}, {}, kC},
      {K::kSwiGlu, "swiglu", {"u"}, {"a"}, {}, kC},
      {K::kSwiGluGrad, "swiglu_grad", {"u", "da"}, {"du"}, {}, kC},
      {K::kRotary,
       "rotary",
       {"=qkv"},
       {"=qkv"},
       {"sequence", "heads", "kv_heads", "head_dim", "first_head", "base", "inverse", "scaling",
        "~factor", "~low", "~high", "original"},
       kC},
      {K::kAttention, "attention", {"qkv", "keys"}, {"context", "lse", "scratch"}, attention, kC},
      {K::kAttentionGrad,
       "attention_grad",
       {"dcontext", "qkv", "context", "lse", "keys"},
       {"dqkv", "scratch"},
       attention,
       kC},
      {K::kCrossEntropyMax, "cross_entropy_max", {"logits"}, {"max"}, vocab, kC},
      {K::kCrossEntropySum, "cross_entropy_sum", {"logits", "max", "targets"}, {"sums"}, vocab, kC},
      {K::kCrossEntropyLoss, "cross_entropy_loss", {"sums"}, {"loss"}, {}, kC},
      {K::kCrossEntropyGrad,
       "cross_entropy_grad",
       {"max", "sums", "targets", "scalars", "=logits"},
       {"=logits"},
       vocab,
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
      Collectively(K::kAllReduce, CollectiveKind::kAllReduce, {"wire"}),
      AllReduceMax(),
      Collectively(K::kReduceScatter, CollectiveKind::kReduceScatter, {"wire"}),
      Collectively(K::kAllGather, CollectiveKind::kAllGather, {"wire"}),
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

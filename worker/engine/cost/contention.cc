// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/contention.h"

#include "proto/base/check.h"

namespace stretto {

const char* NameOf(ComputeClass compute) {
  switch (compute) {
    case ComputeClass::kProduct:
      return "product";
    case ComputeClass::kAttention:
      return "attention";
    case ComputeClass::kAttentionGrad:
      return "attention_grad";
    case ComputeClass::kMemory:
      return "memory";
  }
  return "";
}

ComputeClass ClassOf(OpKind kind) {
  STRETTO_CHECK(!IsCollective(kind));
  if (kind == OpKind::kAttention) return ComputeClass::kAttention;
  if (kind == OpKind::kAttentionGrad) return ComputeClass::kAttentionGrad;
  const bool product =
      kind == OpKind::kGemm || kind == OpKind::kGemmDgrad || kind == OpKind::kGemmWgrad;
  return product ? ComputeClass::kProduct : ComputeClass::kMemory;
}

}  // namespace stretto

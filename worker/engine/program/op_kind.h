#pragma once
// The operations a step program is made of, and what each expects. One table, read by the
// verifier, the printer and parser, and the executors.

#include <bit>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/comm/collective/collective_kind.h"

namespace stretto {

enum class OpKind : uint8_t {
  // Compute; kernels/ops.h has the mathematics.
  kGemm,
  kGemmDgrad,
  kGemmWgrad,
  kBiasGrad,
  kEmbed,
  kEmbedGrad,
  kAddPosition,
  kPositionGrad,
  kLayerNorm,
  kLayerNormDgrad,
  kLayerNormWgrad,
  kRmsNorm,
  kRmsNormDgrad,
  kRmsNormWgrad,
  kBiasResidual,
  kDropout,
  kGelu,
  kGeluGrad,
  kSwiGlu,
  kSwiGluGrad,
  kRotary,
  kAttention,
  kAttentionGrad,
  kCrossEntropyMax,
  kCrossEntropySum,
  kCrossEntropyLoss,
  kCrossEntropyGrad,
  kZero,
  kSumSquares,
  kSum,
  kClip,
  kAdamW,
  // Collectives. The reductions over all are in place on one buffer.
  kAllReduce,
  kAllReduceMax,
  kReduceScatter,
  kAllGather,
};

// What an operation is to a schedule. kChain: others of its strand wait for it. kWeightGradient:
// only the optimizer needs it, so it may fill time under communication.
enum class Role : uint8_t { kChain, kWeightGradient, kCollective };

struct OpInfo {
  OpKind kind;
  const char* name;
  // Operands in order; '?' marks a trailing one that may be absent, '=' one that is read and
  // written and therefore stands in both lists.
  std::vector<const char*> inputs;
  std::vector<const char*> outputs;
  // Integers. "wire" is the DType that travels. '~' marks a real number of at least 0, kept as
  // RealAttribute has it; "~epsilon" is kNormEpsilon where it is 0, "scaling" a
  // RotaryScaling::Kind.
  std::vector<const char*> attributes;
  Role role;
  // Of a collective.
  CollectiveKind collective = CollectiveKind::kBarrier;
  ReduceOp reduction = ReduceOp::kSum;
};

const OpInfo& InfoOf(OpKind kind);
// Null when there is no such operation.
const OpInfo* FindOp(absl::string_view name);

// A real number as an attribute: its bits; 0 is 0.
inline int64_t RealAttribute(double value) { return std::bit_cast<int64_t>(value); }
inline double RealOf(int64_t attribute) { return std::bit_cast<double>(attribute); }

inline bool IsCollective(OpKind kind) { return kind >= OpKind::kAllReduce; }

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much a computation and a collective that run at once on a rank slow each other down, by the
// class of the computation and the kind of the collective. Plain values.

#include <cstdint>
#include <map>
#include <utility>

#include "worker/comm/collective/collective_kind.h"
#include "worker/engine/program/op_kind.h"

namespace stretto {

// What each side loses while the other runs on the same rank. Shares of speed are at least 0 and
// below 1.
struct Contention {
  double compute = 0;        // the share of a core, or of the SMs, that communication burns
  double communication = 0;  // the slow-down of a transfer under compute
  // How long a transfer that begins under compute waits for its turn on the core, however large it
  // is; at least 0. While it waits, neither side loses speed.
  double turn_seconds = 0;
};

// The largest share that a measurement finds. At 1, a side would never end.
inline constexpr double kMostContention = 0.95;

// Computations that contend alike: matrix products, the two passes of attention, and all others,
// which the memory's bandwidth limits.
enum class ComputeClass : uint8_t { kProduct, kAttention, kAttentionGrad, kMemory };
inline constexpr ComputeClass kComputeClasses[] = {ComputeClass::kProduct, ComputeClass::kAttention,
                                                   ComputeClass::kAttentionGrad,
                                                   ComputeClass::kMemory};
const char* NameOf(ComputeClass compute);

// `kind` is not a collective.
ComputeClass ClassOf(OpKind kind);

// By pair. Of a pair that is not in it, the default of a cost model holds.
using PairTable = std::map<std::pair<ComputeClass, CollectiveKind>, Contention>;

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The costs of one machine and its link, measured before what they are to predict (`stretto-bench
// calibrate`), and their text form. Pure; plain values.
//
//   stretto costs 2
//   machine cpu, avx512_core, AMD EPYC 9B14
//   build 0.5.0
//   link latency 2.1e-05 spread 0.03
//   link bandwidth 1.19e+08 spread 0.004
//   link cpu 0.12
//   link burst 262144
//   pair product all_reduce 0.08 0.1 turn 0.004 spread 0.02
//   operation 0.00131 spread 0.02 gemm f32[256,768] f32[1152,768] f32[1152] > f32[256,1152]
//   end 10

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/spread.h"
#include "worker/engine/cost/contention.h"
#include "worker/engine/cost/model.h"

namespace stretto {

struct CostProfile {
  // A number of which the repeats spread by `spread`, at most kMostSpread.
  struct Number {
    double value = 0;
    double spread = 0;
    bool operator==(const Number&) const = default;
  };
  struct Pair {
    Contention contention;
    double spread = 0;  // of the rates that it leaves
  };

  std::string machine = {};  // its kind: device, instructions, model
  std::string build = {};    // the release that measured it

  // Of the link, which is that of one node to another. Above 0; 0 for a rank without peers.
  Number latency_seconds = {}, bytes_per_second = {};
  double cpu_share = 0;    // of a core, that a transfer takes; the default of pairs
  double burst_bytes = 0;  // that an idle link saves up; may be 0

  // By class of computation and kind of collective.
  std::map<std::pair<ComputeClass, CollectiveKind>, Pair> pairs = {};
  // Seconds of an operation alone, by OperationKey; above 0. Collectives are in it, too.
  std::map<std::string, Number> operations = {};

  bool has_link() const { return bytes_per_second.value > 0; }
};

// The first words of the text form.
inline constexpr absl::string_view kCostsTitle = "stretto costs";

std::string Print(const CostProfile& profile);

// The inverse of Print. Errors: InvalidArgument with the number of the line, what was found and
// what was expected: a text that is damaged or of a newer version; a number that is not finite or
// not above 0; a share of 1 or more; a spread above kMostSpread; anything twice.
absl::StatusOr<CostProfile> ParseCostProfile(absl::string_view text);

// Returns the model of these costs. A pair that was not measured loses `cpu_share` of the
// computation and nothing of the transfer.
CostModel ModelOf(const CostProfile& profile);

// Errors: InvalidArgument naming both kinds, if the costs are of another kind of machine.
absl::Status ExpectMachine(const CostProfile& profile, absl::string_view machine);

// Errors: InvalidArgument naming the first computation of `program` that the costs do not have.
absl::Status ExpectOperations(const CostProfile& profile, const Program& program);

}  // namespace stretto

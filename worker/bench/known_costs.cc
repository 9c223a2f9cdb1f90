// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/known_costs.h"

#include "absl/strings/str_cat.h"
#include "worker/engine/cost/contention.h"
#include "worker/engine/program/op_kind.h"

namespace stretto {

void KnownCosts::operator+=(const KnownCosts& other) {
  computations += other.computations;
  known_computations += other.known_computations;
  known_products += other.known_products;
  collectives += other.collectives;
  known_collectives += other.known_collectives;
}

void CountKnown(const Program& program, const CostTable& table, KnownCosts* known) {
  for (const Op& op : program.ops) {
    if (IsTransfer(op.kind)) continue;
    const bool has = table.Find(program, op) != nullptr;
    if (IsCollective(op.kind)) {
      ++known->collectives;
      known->known_collectives += has;
    } else {
      ++known->computations;
      known->known_computations += has;
      known->known_products += has && ClassOf(op.kind) == ComputeClass::kProduct;
    }
  }
}

std::string KnownText(const KnownCosts& known) {
  return absl::StrCat(known.known_computations, " of ", known.computations, " computations, ",
                      known.known_collectives, " of ", known.collectives, " collectives");
}

absl::Status ExpectKnown(const KnownCosts& known, const CostTable& table) {
  if (table.empty()) return absl::OkStatus();
  const bool has_products = table.HasProducts();
  const int found =
      has_products ? known.known_products : known.known_computations + known.known_collectives;
  if (found > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--costs: found times, but of no ", has_products ? "matrix product" : "operation",
      " of this model, expected costs of the same model, --micro-batch, --slices and "
      "--dtype"));
}

}  // namespace stretto

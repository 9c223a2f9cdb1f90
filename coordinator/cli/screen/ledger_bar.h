// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the time of some steps went, as a bar with its legend. Pure.

#include <deque>
#include <string>
#include <vector>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Share of the ledger's seconds, 0 when it has none.
double ShareOf(const v1alpha1::Ledger& ledger, v1alpha1::Ledger::Part part);

struct BarStyle {
  int width = 80;
  bool color = true;
  bool unicode = true;
};

// The bar, and its legend in one line or as many as it takes; none when the steps have no ledger.
std::vector<std::string> LedgerBar(const std::deque<v1alpha1::StepReport>& steps,
                                   const BarStyle& style);

}  // namespace stretto::cli

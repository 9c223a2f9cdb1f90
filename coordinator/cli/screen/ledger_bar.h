// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ledger of some steps as a bar with its legend. Pure.

#include <deque>
#include <string>
#include <vector>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Returns the share of the ledger's seconds; 0 if it has none.
double ShareOf(const v1alpha1::Ledger& ledger, v1alpha1::Ledger::Part part);

struct BarStyle {
  int width = 80;
  bool color = true;
  bool unicode = true;
};

// Returns the bar and its legend, which takes one line or more; nothing if the steps have no
// ledger.
std::vector<std::string> LedgerBar(const std::deque<v1alpha1::StepReport>& steps,
                                   const BarStyle& style);

}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step ledger as a table.

#include <string>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// A table with a row per part, a column per phase, and the share of the whole; then the overlap
// ratio. `emulated` labels it "emulated link".
std::string LedgerTable(const v1alpha1::Ledger& ledger, bool emulated);

}  // namespace stretto::cli

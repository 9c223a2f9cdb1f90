// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step ledger as a table.

#include <string>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// A table with a row per part, a column per phase, and the share of the whole; then the overlap
// ratio. `emulated` labels it "emulated link".
std::string LedgerTable(const v1alpha1::Ledger& ledger, bool emulated);

// A table with a row per part and a column per stage of a pipeline: shares of the time of its
// ranks. Empty if the model is in one stage, or until all ranks have reported a step.
std::string StageTable(const v1alpha1::Job& job);

}  // namespace stretto::cli

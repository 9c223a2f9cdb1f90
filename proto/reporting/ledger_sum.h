// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace stretto {

namespace v1alpha1 {
class Ledger;
}

// Adds the entries and totals of `ledger` to `sum`, which has at most limits::kLedgerEntries: the
// seconds of further kinds go to its last entry.
void AddLedger(const v1alpha1::Ledger& ledger, v1alpha1::Ledger* sum);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "proto/reporting/ledger_sum.h"

#include <algorithm>
#include <iterator>

#include "proto/base/limits.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto {

void AddLedger(const v1alpha1::Ledger& ledger, v1alpha1::Ledger* sum) {
  for (const auto& entry : ledger.entries()) {
    auto* entries = sum->mutable_entries();
    auto it = std::find_if(entries->begin(), entries->end(), [&entry](const auto& other) {
      return other.part() == entry.part() && other.group() == entry.group() &&
             other.phase() == entry.phase();
    });
    // A worker could invent another phase in every step.
    const bool full = sum->entries_size() >= limits::kLedgerEntries.value;
    if (it == entries->end() && full) it = std::prev(it);
    if (it == entries->end()) {
      *sum->add_entries() = entry;
    } else {
      it->set_seconds(it->seconds() + entry.seconds());
    }
  }
  sum->set_wall_seconds(sum->wall_seconds() + ledger.wall_seconds());
  sum->set_communication_seconds(sum->communication_seconds() + ledger.communication_seconds());
  sum->set_hidden_seconds(sum->hidden_seconds() + ledger.hidden_seconds());
  if (ledger.has_preempted_seconds())
    sum->set_preempted_seconds(sum->preempted_seconds() + ledger.preempted_seconds());
  sum->set_involuntary_switches(sum->involuntary_switches() + ledger.involuntary_switches());
  sum->set_steps(sum->steps() + std::max<int64_t>(ledger.steps(), 1));
}

}  // namespace stretto

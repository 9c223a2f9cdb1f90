// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/settled_part.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {
namespace {

constexpr double kMostUnsettled = 0.03;

}  // namespace

void SettledPart::Add(const std::string& operation, const Repeats& found, double seconds) {
  seconds_ += seconds;
  if (found.settled) return;
  unsettled_seconds_ += seconds;
  unsettled_.push_back(absl::StrFormat("%s (%.1f %%)", operation, 100 * found.spread));
}

bool SettledPart::too_small() const { return unsettled_seconds_ > kMostUnsettled * seconds_; }

absl::Status SettledPart::ExpectMost(Communicator& control) const {
  ASSIGN_OR_RETURN(const bool failed, trainer::AnyRank(control, too_small()));
  if (!failed) return absl::OkStatus();
  if (!too_small()) return UnsettledError("found repeats on another rank that differ");
  return UnsettledError(absl::StrFormat(
      "found repeats of which the shortest third spread by more than %.0f %% within %d rounds, "
      "for %.1f %% of the communication of a step, expected for at most %.0f %%: %s",
      100 * kMostSpread, kMostRounds, 100 * unsettled_seconds_ / seconds_, 100 * kMostUnsettled,
      absl::StrJoin(unsettled_, "; ")));
}

}  // namespace stretto::bench

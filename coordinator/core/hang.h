// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the rank that a job waits for, by the positions of its ranks in their orders of operations
// and collectives. Pure.
//
// Daemons report the positions of ranks that have not moved for a while. A rank that is not
// reported moves, and what waits for it does so rightly.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace stretto::coordinator {

// Where a rank is in its calls of a group. All members make the same calls in the same order.
struct ChannelPosition {
  std::string group;
  int64_t begun = 0;      // calls, since the ranks met
  bool waiting = false;   // in the last of them
  int32_t peer = -1;      // if waiting: the rank that it waits for; -1: any member of the group
  bool receives = false;  // for its data; otherwise to send it ours
};

// What a rank does, apart from waiting in a call. Values equal those of v1alpha1.RankPosition.
enum class Activity {
  kIdle = 1,
  kComputing,  // its process uses the CPU, and does not only look at its GPU
  kWorking,    // on work that it has announced, within the time of it
  kOverdue,    // longer than it has announced
};

// Times are those that the rank's daemon has observed.
struct RankPosition {
  bool attached = true;        // to its daemon; if not, the rest but `still` means nothing
  absl::Duration still = {};   // since anything below has changed
  absl::Duration frozen = {};  // since its process has shown a sign of life
  int64_t step = 0;
  std::string phase = {};
  std::string operation =
      {};  // the one that began last, as the program's text has it; may be empty
  Activity activity = Activity::kIdle;
  std::vector<ChannelPosition> channels = {};
};

struct HangLimits {
  absl::Duration still =
      absl::Seconds(20);  // of a rank that does nothing, is frozen or does not attach
  absl::Duration computing = absl::Minutes(10);  // of a rank that computes
};

// A rank that the others wait for in vain.
struct Hang {
  int32_t rank = 0;
  std::string message;  // what it does, and who waits for it or whom the network keeps it from
  bool operator==(const Hang&) const = default;
};

// `ranks` are the job's ranks that have not ended, `positions` those of them that do not move.
// Returns nullopt while the job may be healthy:
// - A rank that is frozen, unattached, overdue or too long in one computation hangs by itself.
// - Otherwise all ranks must be still for the limit, and none may work or compute. Then the first
//   wait is followed from rank to rank: to its peer or, where it has none, to the member of its
//   group that has begun the fewest calls. It ends at a rank that waits for nobody, which hangs, or
//   at a transfer whose receiver is in a call that the sender has begun too: then the network
//   between them is cut, and the receiver is named. If it ends at a call without a peer that all
//   members have begun, nothing tells them apart, and the first that is in it is named.
std::optional<Hang> FindHang(const std::set<int32_t>& ranks,
                             const std::map<int32_t, RankPosition>& positions,
                             const HangLimits& limits);

}  // namespace stretto::coordinator

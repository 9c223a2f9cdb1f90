// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the trainers of this node that do not move, by looking at their flight records from time to
// time. The trainers' help is not needed, so a stopped process is seen too.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/run_folder.h"
#include "worker/daemon/trainers/rank_key.h"
#include "worker/report/flight_record.h"

namespace stretto::daemon {

// A trainer that is to be watched.
struct WatchedTrainer {
  RankKey key;
  RunFolder folder;
};

// Not thread-safe.
class PositionWatch {
 public:
  using ReadFlight = std::function<absl::StatusOr<FlightState>(const RunFolder&)>;
  // How to read a flight record; tests give their own.
  explicit PositionWatch(ReadFlight read = nullptr);

  // Looks at all trainers at `now` (monotonic). Time between two looks counts for the trainers only
  // if it is short: after a longer one this process itself stood still. Returns the ranks that have
  // not moved for a while; nothing if there are none and the look before had none either.
  std::optional<v1alpha1::RankPositions> Look(const std::vector<WatchedTrainer>& trainers,
                                              absl::Duration now);

 private:
  struct Seen {
    std::optional<FlightState> state;  // nothing: not attached
    absl::Duration still, frozen;
    absl::Duration cpu;          // of the process when it stopped moving
    std::string operation = {};  // its line in the program's text, once it was looked up
    bool looked_up = false;
  };
  void Update(const WatchedTrainer& trainer, absl::Duration passed, Seen* seen);
  static v1alpha1::RankPosition Describe(const WatchedTrainer& trainer, absl::Duration now,
                                         Seen* seen);

  const ReadFlight read_;
  std::map<RankKey, Seen> seen_;
  std::optional<absl::Duration> last_look_;
  bool told_ = false;
};

}  // namespace stretto::daemon

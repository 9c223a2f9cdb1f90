// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/process/flight_watch.h"

namespace stretto::trainer {

absl::Duration IdleTime(const std::string& flight_path) {
  const absl::StatusOr<FlightState> flight = ReadFlightRecord(flight_path);
  if (!flight.ok()) return absl::InfiniteDuration();
  const absl::Duration now = Clock::Real().Monotonic();
  const bool reads = flight->phase == FlightPhase::kData && now < flight->announced_until;
  if (flight->phase == FlightPhase::kCheckpoint || reads) return absl::ZeroDuration();
  return now - flight->last_update;
}

std::vector<FlightPhase> PhasesOf(const Program& program) {
  std::vector<FlightPhase> phases;
  for (const Op& op : program.ops) {
    switch (op.tag.phase) {
      case stretto::Phase::kForward:
        phases.push_back(FlightPhase::kForward);
        break;
      case stretto::Phase::kRecompute:
        phases.push_back(FlightPhase::kRecompute);
        break;
      case stretto::Phase::kBackward:
        phases.push_back(FlightPhase::kBackward);
        break;
      case stretto::Phase::kOptimizer:
        phases.push_back(FlightPhase::kOptimizer);
        break;
    }
  }
  return phases;
}

}  // namespace stretto::trainer

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes into a trainer's flight record what are neither steps nor operations: the calls of its
// groups and announced work.

#include <string>
#include <utility>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/ids.h"
#include "worker/comm/call_watch.h"
#include "worker/engine/program/program.h"
#include "worker/report/flight_record.h"

namespace stretto::trainer {

class FlightWatch final : public CallWatch {
 public:
  // `ranks` are the members, as ranks of the job. Borrows the recorder.
  FlightWatch(FlightRecorder& flight, const std::string& group, std::vector<Rank> ranks)
      : flight_(flight), channel_(flight.AddChannel(group)), ranks_(std::move(ranks)) {}

  void OnBegin() override { flight_.BeginCall(channel_, Clock::Real().Monotonic()); }
  void OnAwait(int peer, bool receives) override {
    flight_.AwaitPeer(channel_, ranks_[peer].value(), receives, Clock::Real().Monotonic());
  }
  void OnEnd() override { flight_.EndCall(channel_, Clock::Real().Monotonic()); }
  void OnPoll(bool polls) override { flight_.SetPolling(channel_, polls); }

 private:
  FlightRecorder& flight_;
  const int channel_;
  const std::vector<Rank> ranks_;
};

// How long work may take that moves nothing in the flight record; a rank that takes longer hangs.
inline constexpr absl::Duration kReadingData = absl::Minutes(5);  // a file server may be away
inline constexpr absl::Duration kPart = absl::Minutes(10);        // of prepare, or of the end
// Longer than a part, so that a rank that the others wait for is found before those that wait.
inline constexpr absl::Duration kMeeting = absl::Minutes(15);
inline constexpr absl::Duration kMeasuring = absl::Hours(2);  // steps of any model

// Reading or writing the files of a checkpoint, whose tensors have `bytes` in all: at the rate of a
// slow disk that all ranks share, and as long again as a file server may be away.
inline absl::Duration FilesTake(int64_t bytes) {
  constexpr double kBytesPerSecond = 20e6;
  return kReadingData + absl::Seconds(static_cast<double>(bytes) / kBytesPerSecond);
}

// Work begins that takes `at_most` this long.
inline void Announce(FlightRecorder& flight, absl::Duration at_most) {
  flight.Announce(Clock::Real().Monotonic() + at_most);
}

// While it lives, the rank is at work that moves nothing in its flight record.
class AnnouncedWork {
 public:
  AnnouncedWork(FlightRecorder& flight, absl::Duration at_most) : flight_(flight) {
    Announce(flight, at_most);
  }
  ~AnnouncedWork() { flight_.Announce(absl::ZeroDuration()); }
  AnnouncedWork(const AnnouncedWork&) = delete;
  AnnouncedWork& operator=(const AnnouncedWork&) = delete;

 private:
  FlightRecorder& flight_;
};

// Returns how long the rank whose record this is has begun no operation; 0 while it writes a
// checkpoint or reads data, which take their time without any, and infinity without a record.
absl::Duration IdleTime(const std::string& flight_path);

// Returns the flight record's phase of every operation.
std::vector<FlightPhase> PhasesOf(const Program& program);

}  // namespace stretto::trainer

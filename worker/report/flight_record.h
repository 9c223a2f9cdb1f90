// SPDX-License-Identifier: Apache-2.0
#pragma once
// The position of a trainer, in one page of a mapped file. It survives the process, so after a kill
// -9 the daemon can report the step, phase and operation, and it can detect that nothing moves.

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stretto {

// The phase of training between and within steps.
enum class FlightPhase : uint32_t {
  kStarting,
  kPrepare,
  kData,
  kForward,
  kRecompute,
  kBackward,
  kOptimizer,
  kCheckpoint,
  kStopping,
  kEvaluation
};
const char* NameOf(FlightPhase phase);

enum class FlightLane : uint32_t { kCompute, kComm };

struct FlightPage;

// The trainer's side. Setters are relaxed atomic stores, for any thread, without system calls.
class FlightRecorder {
 public:
  // Replaces the file of an earlier process. Errors: ResourceExhausted (disk full), those of
  // ErrnoStatus.
  static absl::StatusOr<FlightRecorder> Create(const std::string& path);
  FlightRecorder(FlightRecorder&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  FlightRecorder& operator=(FlightRecorder&&) = delete;
  ~FlightRecorder();

  // `now` is the monotonic clock of the machine, as in Clock::Monotonic.
  void SetStep(int64_t step, absl::Duration now);
  void SetPhase(FlightPhase phase, absl::Duration now);
  // A lane begins the operation that has this number in the program's text.
  void SetOperation(FlightLane lane, int64_t operation, absl::Duration now);

 private:
  explicit FlightRecorder(FlightPage* page) : page_(page) {}
  FlightPage* page_;
};

struct FlightState {
  int64_t step = 0;
  FlightPhase phase = FlightPhase::kStarting;
  int64_t compute_operation = -1;  // -1: none yet
  int64_t comm_operation = -1;
  int64_t last_operation = -1;  // of the lane that moved last
  absl::Duration last_update;   // monotonic clock
};

// The daemon's side, during and after the trainer's life. Each field is consistent, but fields may
// be of different instants. Errors: NotFound, DataLoss (too short, not a flight record, an unknown
// phase).
absl::StatusOr<FlightState> ReadFlightRecord(const std::string& path);

// Returns the line of a program's text that begins with `operation`: "18 comm.tp all_reduce L3.fc2
// fwd mb0 s0 in=%12 out=%12 wait=17". Errors: NotFound.
absl::StatusOr<std::string> OperationLine(const std::string& program_text_path, int64_t operation);

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The position of a trainer, in one page of a mapped file. It survives the process, so after a kill
// -9 the daemon can report the step, phase and operation; and the daemon reads it without the help
// of the process, so it can detect that nothing moves.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// Groups beyond this number are not recorded.
inline constexpr int kMaxFlightChannels = 48;

// The trainer's side. Setters are relaxed atomic stores, for any thread, without system calls.
// `now` is the monotonic clock of the machine, as in Clock::Monotonic.
class FlightRecorder {
 public:
  // Replaces the file of an earlier process. Errors: ResourceExhausted (disk full), those of
  // ErrnoStatus.
  static absl::StatusOr<FlightRecorder> Create(const std::string& path);
  FlightRecorder(FlightRecorder&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  FlightRecorder& operator=(FlightRecorder&&) = delete;
  ~FlightRecorder();

  void SetStep(int64_t step, absl::Duration now);
  void SetPhase(FlightPhase phase, absl::Duration now);
  // A lane begins the operation that has this number in the program's text.
  void SetOperation(FlightLane lane, int64_t operation, absl::Duration now);

  // Adds a group whose calls are recorded, and returns its number. One thread at a time; of a name,
  // the first 31 bytes are kept.
  int AddChannel(absl::string_view group);
  // The calls of a channel come from one thread at a time.
  void BeginCall(int channel, absl::Duration now);
  // The call in progress waits for `peer`, a rank of the job: for its data, or to send it ours.
  void AwaitPeer(int channel, int32_t peer, bool receives, absl::Duration now);
  void EndCall(int channel, absl::Duration now);
  // The calls of the channel are a device's. Whether all that the thread that drives it does now is
  // to look how far they have come. No move.
  void SetPolling(int channel, bool polls);

  // A sign of life of the process, which has used `cpu` so far.
  void Pulse(absl::Duration now, absl::Duration cpu);
  // Work begins that moves nothing else here before `until` at the latest. Zero: it has ended.
  void Announce(absl::Duration until);

 private:
  explicit FlightRecorder(FlightPage* page) : page_(page) {}
  FlightPage* page_;
};

// A group's calls, as one member sees them.
struct FlightChannel {
  std::string group;
  int64_t begun = 0;     // calls, since the ranks met
  bool waiting = false;  // in the last of them
  int32_t peer = -1;     // if waiting: as AwaitPeer; -1: none yet, or any member
  bool receives = false;
  // As SetPolling: where a device makes the calls, its thread waits for their ends if it polls, and
  // does other work otherwise.
  bool on_device = false;
  bool polls = false;
};

struct FlightState {
  int64_t step = 0;
  FlightPhase phase = FlightPhase::kStarting;
  int64_t compute_operation = -1;  // -1: none yet
  int64_t comm_operation = -1;
  int64_t last_operation = -1;     // of the lane that moved last
  absl::Duration last_update;      // of anything above or of a channel; monotonic clock
  absl::Duration pulse, cpu;       // as Pulse; zero: none yet
  absl::Duration announced_until;  // zero: nothing is announced
  std::vector<FlightChannel> channels;
};

// The daemon's side, during and after the trainer's life. Each field is consistent, but fields may
// be of different instants. Errors: NotFound, DataLoss (too short, not a flight record, an unknown
// phase).
absl::StatusOr<FlightState> ReadFlightRecord(const std::string& path);

// Returns the line of a program's text that begins with `operation`: "18 comm.tp all_reduce L3.fc2
// fwd mb0 s0 in=%12 out=%12 wait=17". Errors: NotFound.
absl::StatusOr<std::string> OperationLine(const std::string& program_text_path, int64_t operation);

}  // namespace stretto

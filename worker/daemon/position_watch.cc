// SPDX-License-Identifier: Apache-2.0

// Keeps the last state of each flight record and adds up the time in which it did not change. Two
// times are kept: of the position, and of the pulse that a thread of the trainer writes while the
// process runs. A trainer without a flight record has not attached yet; one whose record cannot be
// read, because a trainer of another version wrote it, is not judged.

#include "worker/daemon/position_watch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;

// Ranks that are still for less are not worth a message.
constexpr absl::Duration kWorthTelling = absl::Seconds(3);
// Several times the interval of heartbeats, with which looks come.
constexpr absl::Duration kLongestLook = absl::Seconds(8);
// A process that uses more than this part of one core computes.
constexpr double kComputes = 0.5;

void AddChannels(const FlightState& state, v1::RankPosition* position) {
  for (const FlightChannel& channel : state.channels) {
    v1::ChannelPosition* added = position->add_channels();
    added->set_group(channel.group);
    added->set_begun(channel.begun);
    added->set_waiting(channel.waiting);
    added->set_peer(channel.peer);
    added->set_receives(channel.receives);
  }
}

// A device may be in a call while its thread does other work.
bool WaitsInACall(const FlightState& state) {
  return absl::c_any_of(state.channels, [](const FlightChannel& of) {
    return of.waiting && (!of.on_device || of.polls);
  });
}

bool Polls(const FlightState& state) {
  return absl::c_any_of(state.channels, [](const FlightChannel& of) { return of.polls; });
}

// `used`: CPU time since the position stopped moving, `still` ago.
v1::RankPosition::Activity ActivityOf(const FlightState& state, absl::Duration used,
                                      absl::Duration still, absl::Duration now) {
  // Who waits in a call does not do what it has announced; a thread of its own does, and shows it.
  if (state.announced_until > absl::ZeroDuration() && !WaitsInACall(state)) {
    return now < state.announced_until ? v1::RankPosition::WORKING : v1::RankPosition::OVERDUE;
  }
  // Looking at a device uses the CPU, and so do threads of a library that wait for peers. Whether
  // the device computes, they do not tell.
  if (Polls(state)) return v1::RankPosition::IDLE;
  return used > still * kComputes ? v1::RankPosition::COMPUTING : v1::RankPosition::IDLE;
}

}  // namespace

PositionWatch::PositionWatch(ReadFlight read)
    : read_(read != nullptr ? std::move(read) : [](const RunFolder& folder) {
        return ReadFlightRecord(folder.flight());
      }) {}

std::optional<v1::RankPositions> PositionWatch::Look(const std::vector<WatchedTrainer>& trainers,
                                                     absl::Duration now) {
  absl::Duration passed = last_look_.has_value() ? now - *last_look_ : absl::ZeroDuration();
  if (passed > kLongestLook) passed = absl::ZeroDuration();
  last_look_ = now;
  v1::RankPositions positions;
  std::set<RankKey> present;
  for (const WatchedTrainer& trainer : trainers) {
    present.insert(trainer.key);
    Seen& seen = seen_[trainer.key];
    Update(trainer, passed, &seen);
    if (std::max(seen.still, seen.frozen) < kWorthTelling) continue;
    *positions.add_ranks() = Describe(trainer, now, &seen);
  }
  std::erase_if(seen_, [&](const auto& entry) { return present.count(entry.first) == 0; });
  const bool tell = positions.ranks_size() > 0;
  if (!std::exchange(told_, tell) && !tell) return std::nullopt;
  return positions;
}

void PositionWatch::Update(const WatchedTrainer& trainer, absl::Duration passed, Seen* seen) {
  absl::StatusOr<FlightState> state = read_(trainer.folder);
  if (!state.ok()) {
    const bool unattached = absl::IsNotFound(state.status()) && !seen->state.has_value();
    seen->still = unattached ? seen->still + passed : absl::ZeroDuration();
    seen->frozen = absl::ZeroDuration();
    return;
  }
  const bool first = !seen->state.has_value();
  const bool moved = first || seen->state->last_update != state->last_update;
  const bool alive = first || state->pulse == absl::ZeroDuration() ||  // not begun yet
                     seen->state->pulse != state->pulse;
  seen->still = moved ? absl::ZeroDuration() : seen->still + passed;
  seen->frozen = alive ? absl::ZeroDuration() : seen->frozen + passed;
  if (moved) {
    seen->cpu = state->cpu;
    seen->looked_up = false;
  }
  seen->state = *std::move(state);
}

v1::RankPosition PositionWatch::Describe(const WatchedTrainer& trainer, absl::Duration now,
                                         Seen* seen) {
  v1::RankPosition position;
  position.set_job_uid(trainer.key.job_uid);
  position.set_epoch(trainer.key.epoch);
  position.set_rank(trainer.key.rank);
  position.set_still_ms(absl::ToInt64Milliseconds(seen->still));
  if (!seen->state.has_value()) return position;
  const FlightState& state = *seen->state;
  position.set_attached(true);
  position.set_frozen_ms(absl::ToInt64Milliseconds(seen->frozen));
  position.set_step(state.step);
  position.set_phase(NameOf(state.phase));
  if (!seen->looked_up) {  // the program's text may be long: it is read once per standstill
    const absl::StatusOr<std::string> line =
        OperationLine(trainer.folder.program(), state.last_operation);
    seen->operation = line.ok() ? *line : "";
    seen->looked_up = true;
  }
  position.set_operation(seen->operation);
  position.set_activity(ActivityOf(state, state.cpu - seen->cpu, seen->still, now));
  AddChannels(state, &position);
  return position;
}

}  // namespace stretto::daemon

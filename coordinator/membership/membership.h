// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which worker daemons exist and which of them are alive. Pure: time is an argument.
//
// A worker is known by its id (a name people give). A daemon process is known by its incarnation (a
// uid), and one stream of that process by its session (a number the caller never uses twice within
// this process). A worker is READY while its session is open and its lease runs. It becomes LOST
// when the session breaks or the lease ends, and READY again by registering. Only the newest
// session of a worker may renew its lease, so a stream that was taken over cannot keep a dead
// worker alive.
//
// Not thread-safe; copies are independent.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stretto::coordinator {

// One place where a rank can run.
struct WorkerDevice {
  int32_t slot = 0;
  int32_t kind = 0;  // value of v1alpha1.Device; compared for equality only
  std::string description;
  int64_t memory_bytes = 0;
  std::string fault = {};  // why nothing may be placed here; empty while healthy
  bool operator==(const WorkerDevice&) const = default;
};

// What a heartbeat says of one of them.
struct SlotHealth {
  int32_t slot = 0;
  std::string fault;
};

enum class WorkerState { kReady = 1, kLost = 2 };

// What is stored of a worker. A worker read from the store is LOST until it registers.
struct WorkerRecord {
  std::string id;
  std::string incarnation;
  std::string host;
  std::string build;
  std::vector<WorkerDevice> devices;
  WorkerState state = WorkerState::kLost;
  absl::Time register_time;
  absl::Time lease_end;  // as of the last registration or loss; heartbeats are not stored
  bool operator==(const WorkerRecord&) const = default;
};

struct Worker {
  WorkerRecord record;
  int64_t session = 0;  // 0: none in this process yet
  absl::Time last_heartbeat_time;
  // The lease, kept up to date by heartbeats. From here a LOST worker's ranks have their grace.
  absl::Time lease_end;

  bool ready() const { return record.state == WorkerState::kReady; }
};

class Membership {
 public:
  explicit Membership(absl::Duration lease) : lease_(lease) {}

  // Adds a stored worker as LOST since `now`.
  void Restore(WorkerRecord record, absl::Time now);

  // Makes the worker READY with a fresh lease. Returns the session taken over, which the caller
  // closes, or 0. Errors: AlreadyExists (another incarnation with this id is READY; names its
  // host), InvalidArgument (bad id, no devices, two devices with one slot, a negative slot).
  absl::StatusOr<int64_t> Register(WorkerRecord record, int64_t session, absl::Time now);

  // Renews the lease. Errors: as Check.
  absl::Status Heartbeat(const std::string& id, int64_t session, absl::Time now);

  // The devices of a known worker, as they are with `health`; what it does not name is as it was.
  // Errors: InvalidArgument (the worker has registered no such slot).
  absl::StatusOr<std::vector<WorkerDevice>> DevicesWith(
      const std::string& id, const std::vector<SlotHealth>& health) const;
  void SetDevices(const std::string& id, std::vector<WorkerDevice> devices);

  // Ok when `session` is the worker's newest and the worker is READY. Errors: NotFound (no such
  // worker), Aborted (a newer session took over, or the worker is LOST: register again).
  absl::Status Check(const std::string& id, int64_t session) const;

  // The session broke: the worker is LOST at once, and the lease keeps its end. Returns whether
  // anything changed: an older session or an unknown worker changes nothing.
  bool Disconnect(const std::string& id, int64_t session);

  // Marks workers whose lease has ended as LOST; returns their ids in order.
  std::vector<std::string> Expire(absl::Time now);

  const Worker* Find(const std::string& id) const;
  const std::map<std::string, Worker>& workers() const { return workers_; }

 private:
  absl::Duration lease_;
  std::map<std::string, Worker> workers_;
};

}  // namespace stretto::coordinator

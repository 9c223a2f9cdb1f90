// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which worker daemons exist and which of them are alive. Pure: time is an argument. Leases are
// measured on the steady clock of a Moment.
//
// People give a worker its id. An incarnation (a uid) identifies a daemon process, and a session
// identifies one stream of that process; the caller never reuses a session number within this
// process. A worker is READY while its session is open and its lease is valid. It becomes LOST when
// the session breaks or the lease ends, and READY again by registering. Only the newest session of
// a worker may renew its lease, so a stream that was taken over cannot keep a dead worker alive.
//
// Not thread-safe; copies are independent.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/membership/moment.h"

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

// The health of one slot, as a heartbeat reports it.
struct SlotHealth {
  int32_t slot = 0;
  std::string fault;
};

enum class WorkerState { kReady = 1, kLost = 2 };

// The stored part of a worker. A worker read from the store is LOST until it registers.
struct WorkerRecord {
  std::string id;
  std::string incarnation;
  std::string host;
  std::string build;
  std::vector<WorkerDevice> devices;
  WorkerState state = WorkerState::kLost;
  absl::Time register_time;
  std::string cordon = {};              // why it takes no new work; empty: it does
  std::vector<absl::Time> faults = {};  // recent failures that its machine is to blame for
  bool operator==(const WorkerRecord&) const = default;
};

struct Worker {
  WorkerRecord record;
  int64_t session = 0;  // 0: none in this process yet
  absl::Time last_heartbeat_time;
  // The lease, on the steady clock; heartbeats renew it and are not stored. The grace of a LOST
  // worker's ranks starts here.
  absl::Duration lease_end;

  bool ready() const { return record.state == WorkerState::kReady; }
};

class Membership {
 public:
  explicit Membership(absl::Duration lease) : lease_(lease) {}

  // Adds a stored worker as LOST. Its lease begins at the origin of the steady clock, because it
  // could reach nobody before.
  void Restore(WorkerRecord record);

  // Makes the worker READY with a fresh lease. Returns the session that it replaces, which the
  // caller closes, or 0. Errors: AlreadyExists (another incarnation with this id is READY; the
  // message names its host), InvalidArgument (bad id, no devices, two devices with one slot, a
  // negative slot).
  absl::StatusOr<int64_t> Register(WorkerRecord record, int64_t session, Moment now);

  // Renews the lease. Errors: those of Check.
  absl::Status Heartbeat(const std::string& id, int64_t session, Moment now);

  // Returns the devices of a known worker, updated by `health`; slots that `health` does not list
  // are unchanged. Errors: InvalidArgument (the worker has registered no such slot).
  absl::StatusOr<std::vector<WorkerDevice>> DevicesWith(
      const std::string& id, const std::vector<SlotHealth>& health) const;
  // Makes a known worker take no new work, or take it again if `reason` is empty.
  void SetCordon(const std::string& id, const std::string& reason);
  void SetFaults(const std::string& id, std::vector<absl::Time> faults);
  void SetDevices(const std::string& id, std::vector<WorkerDevice> devices);

  // The lease of a worker that is known begins anew, whatever its state, which stays.
  void Renew(const std::string& id, absl::Duration steady);

  // Returns Ok if `session` is the worker's newest and the worker is READY. Errors: NotFound (no
  // such worker), Aborted (a newer session took over, or the worker is LOST: register again).
  absl::Status Check(const std::string& id, int64_t session) const;

  // The READY workers whose lease has ended, in order.
  std::vector<std::string> Overdue(absl::Duration steady) const;

  // Makes a READY worker LOST: its session broke, or its lease ended. The lease keeps its end.
  void Lose(const std::string& id);

  // Sets a worker back to an earlier value; nullopt: there was none.
  void Reset(const std::string& id, std::optional<Worker> value);

  const Worker* Find(const std::string& id) const;
  const std::map<std::string, Worker>& workers() const { return workers_; }
  const std::set<std::string>& lost() const { return lost_; }  // ids

 private:
  absl::Duration lease_;
  std::map<std::string, Worker> workers_;
  std::set<std::string> lost_;
};

}  // namespace stretto::coordinator

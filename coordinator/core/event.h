// SPDX-License-Identifier: Apache-2.0
#pragma once
// What can happen to the coordinator. Plain values; everything random (uids) or read from a clock
// by somebody else (report times) comes in with the event.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/membership/membership.h"
#include "proto/base/ids.h"

namespace stretto::coordinator {

// The spec has been validated by itself. Errors: AlreadyExists (the name is taken, or request_id
// was used with another fingerprint), FailedPrecondition (needs more slots than all registered
// workers have). The same request_id and fingerprint as an existing job: ok, and that job's id is
// returned.
struct CreateJob {
  std::string job_id;
  std::string uid;   // fresh
  std::string spec;  // serialised v1alpha1.JobSpec
  int32_t world_size = 1;
  int32_t device_kind = 0;
  int64_t total_steps = 0;
  std::string request_id;      // empty: not idempotent
  std::string fingerprint;     // of the whole request body but request_id
  bool validate_only = false;  // all checks; nothing changes and job_id is not looked up afterwards
};

// Errors: NotFound; FailedPrecondition (already ended). A job that is being cancelled: ok.
struct CancelJob {
  std::string job_id;
};

struct HeldRank {
  std::string job_uid;
  Epoch epoch;
  Rank rank;
  bool alive = false;
  int64_t last_sequence = 0;
};

// Answered by a Registered message, then by whatever the worker has missed (Assign, Stop).
// Errors: as Membership::Register.
struct WorkerRegistered {
  std::string id;
  std::string incarnation;
  std::string host;
  std::string build;
  std::vector<WorkerDevice> devices;
  std::vector<HeldRank> held;
  int64_t session = 0;  // > 0, never used before in this process
};

// Errors: NotFound, Aborted (not the newest session, or LOST: register again), InvalidArgument
// (health of a slot that it has not registered).
struct WorkerHeartbeat {
  std::string id;
  int64_t session = 0;
  std::vector<SlotHealth> health = {};  // of slots not named: as it was
};

struct WorkerDisconnected {
  std::string id;
  int64_t session = 0;
};

struct RankPrepared {
  absl::Time time;
};
struct FirstOperationDone {
  absl::Time time;
};
struct StepDone {
  int64_t step = 0;
  absl::Time end_time;
};
struct CheckpointDone {
  int64_t step = 0;
  std::string name;
  bool ok = true;
  std::string message;
};
struct RankExited {
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;
  std::string message;
  int64_t step = 0;
  std::string phase;
  std::string last_operation;
  absl::Time time;
  bool stopped_by_daemon = false;
};
struct RankWarned {
  std::string condition;
  std::string reason;
  std::string message;
};
// A report that concerns the service alone (a profile): counted, acknowledged, nothing else.
struct OtherReport {};

// Errors, after which nothing has changed: NotFound (no such job or rank; never heard of it: drop
// it), Aborted (stale epoch, another worker's rank, or an old session: drop it),
// FailedPrecondition (a gap in the sequence: end the session, the daemon replays).
struct RankReported {
  std::string worker;
  int64_t session = 0;
  std::string job_uid;
  Epoch epoch;
  Rank rank;
  int64_t sequence = 0;  // from 1 per (job, epoch, rank), without gaps
  std::variant<OtherReport, RankPrepared, FirstOperationDone, StepDone, CheckpointDone, RankExited,
               RankWarned>
      report;
};

// Time has passed: leases and graces end. Send one every second or so.
struct Tick {};

using Event = std::variant<CreateJob, CancelJob, WorkerRegistered, WorkerHeartbeat,
                           WorkerDisconnected, RankReported, Tick>;

}  // namespace stretto::coordinator

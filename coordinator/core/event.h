// SPDX-License-Identifier: Apache-2.0
#pragma once
// The events of the coordinator, as plain values. Everything random (uids) or read from another
// machine's clock (report times) is part of the event.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/hang.h"
#include "coordinator/core/records.h"
#include "coordinator/core/straggler.h"
#include "coordinator/membership/membership.h"
#include "coordinator/placement/placement.h"
#include "proto/base/ids.h"

namespace stretto::coordinator {

// Creates a job whose spec has been validated on its own. A request with the request_id and
// fingerprint of an existing job is ok and returns that job's id. Errors: AlreadyExists (the name
// is taken, or request_id was used with another fingerprint), FailedPrecondition (the job needs
// more slots than all registered workers have), ResourceExhausted (CheckQuota). In all requests,
// `caller` is the URI of a person's certificate, or empty.
struct CreateJob {
  std::string job_id;
  std::string uid;   // fresh
  std::string spec;  // serialised v1alpha1.JobSpec
  Gang gang;
  int32_t device_kind = 0;
  int64_t total_steps = 0;
  std::optional<RestartPolicy> restart;
  std::vector<Gang> fallbacks = {};  // as JobRecord::fallbacks
  int32_t priority = 0;
  std::string project = "default";
  std::map<std::string, std::string> labels = {};
  std::string owner = {};      // name of the user
  bool saves = true;           // it can write checkpoints
  std::string request_id;      // empty: not idempotent
  std::string fingerprint;     // of the request body without request_id
  bool validate_only = false;  // makes all checks and changes nothing; the job does not exist after
  std::string caller = {};
};

// Errors: NotFound; FailedPrecondition (the job has ended). Ok for a job that is being cancelled.
struct CancelJob {
  std::string job_id;
  std::string caller = {};
};

// Errors: NotFound; FailedPrecondition (the job has not ended).
struct DeleteJob {
  std::string job_id;
};

// Errors: NotFound; FailedPrecondition (the job does not train, is about to stop, or cannot write
// checkpoints). Ok for a job that has been asked already.
struct CheckpointJob {
  std::string job_id;
  std::string caller = {};
};

// Errors: NotFound; FailedPrecondition (the job has ended, or is being cancelled). Ok for a job
// that is suspended.
struct SuspendJob {
  std::string job_id;
  std::string caller = {};
};

// Errors: NotFound; FailedPrecondition (the job is not SUSPENDED, FAILED or CANCELLED, nor has it
// SUCCEEDED and is to make more steps from a checkpoint); ResourceExhausted (CheckQuota).
struct ResumeJob {
  std::string job_id;
  std::string caller = {};
  int64_t total_steps = 0;  // more than before; 0: as before
  std::string spec = {};    // with these steps; empty: as before
};

// Errors: NotFound.
struct CordonWorker {
  std::string id;
  std::string reason;  // not empty
  bool drain = false;  // jobs that may restart after a preemption are stopped with a checkpoint
};
struct UncordonWorker {
  std::string id;
};

// Removes a LOST worker. Errors: NotFound; FailedPrecondition (it is READY, or a job that has not
// ended has ranks there).
struct ForgetWorker {
  std::string id;
};

struct HeldRank {
  std::string job_uid;
  Epoch epoch;
  Rank rank = 0;
  bool alive = false;
  int64_t last_sequence = 0;
};

// The answer is a Registered message and then whatever the worker has missed (Assign, Stop).
// Errors: those of Membership::Register; PermissionDenied (the worker belongs to another cluster,
// or knows a newer epoch of this one, so that this state is not the one that it worked for).
struct WorkerRegistered {
  std::string id;
  std::string incarnation;
  std::string host;
  std::string build;
  std::vector<WorkerDevice> devices;
  std::vector<HeldRank> held;
  int64_t session = 0;          // > 0, never used before in this process
  std::string cluster_id = {};  // of the worker; empty: it belongs to none yet
  Epoch newest_epoch = {};      // of the assignments that it has had there
};

// Errors: NotFound, Aborted (not the newest session, or LOST: register again), InvalidArgument
// (health of a slot that the worker has not registered).
struct WorkerHeartbeat {
  std::string id;
  int64_t session = 0;
  std::vector<SlotHealth> health = {};  // slots not listed keep their health
};

// The ranks of a worker that have not moved for a while; all its others move. Replaces the worker's
// positions before. Ranks that are not of a current attempt on this worker are ignored. Errors:
// NotFound, Aborted as WorkerHeartbeat.
struct RankPositions {
  struct Of {
    std::string job_uid;
    Epoch epoch;
    Rank rank = 0;
    RankPosition position;
  };
  std::string worker;
  int64_t session = 0;
  std::vector<Of> ranks;
};

// The assignment of a job cannot be sent to this worker, now or ever, and is not: its ranks there
// fail, and the worker keeps its session. Without effect if the attempt is over.
struct AssignmentRefused {
  std::string worker;
  std::string job_uid;
  Epoch epoch;
  std::string message;  // why
};

struct WorkerDisconnected {
  std::string id;
  int64_t session = 0;
};

struct RankPrepared {
  absl::Time time;
  bool resumed_inexactly = false;  // from a checkpoint of another layout; equal for every rank
  int64_t decay_steps = 0;  // taken from the checkpoint; 0: the spec's own; equal for every rank
};
struct FirstOperationDone {
  absl::Time time;
};
struct StepDone {
  int64_t step = 0;
  absl::Time end_time;
  StepTimes times = {};
};
struct CheckpointDone {
  int64_t step = 0;
  std::string name;
  bool ok = true;
  std::string message;
  std::string best = {};  // empty: not known
  int64_t request = 0;    // the newest SendSave that it answers; 0: none
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
// A report that concerns only the service (a profile, samples): it is counted and acknowledged.
struct OtherReport {};

// Errors, after which nothing has changed: NotFound (no such job or rank: drop the report), Aborted
// (stale epoch, another worker's rank, or an old session: drop the report), OutOfRange (a gap in
// the sequence: end the session, and the daemon replays).
struct RankReported {
  std::string worker;
  int64_t session = 0;
  std::string job_uid;
  Epoch epoch;
  Rank rank = 0;
  int64_t sequence = 0;  // from 1 per (job, epoch, rank), without gaps but for those dropped
  int64_t dropped = 0;   // reports right before this one that nobody has any more
  std::variant<OtherReport, RankPrepared, FirstOperationDone, StepDone, CheckpointDone, RankExited,
               RankWarned>
      report;
};

// Time has passed: leases and graces may have ended. Send one about every second.
struct Tick {};

using Event =
    std::variant<CreateJob, CancelJob, CheckpointJob, SuspendJob, ResumeJob, DeleteJob,
                 CordonWorker, UncordonWorker, ForgetWorker, WorkerRegistered, WorkerHeartbeat,
                 AssignmentRefused, WorkerDisconnected, RankReported, RankPositions, Tick>;

}  // namespace stretto::coordinator

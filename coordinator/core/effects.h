// SPDX-License-Identifier: Apache-2.0
#pragma once
// What follows from an event. Order of execution: persist, all in one transaction; only then sends
// in order, and news of changed jobs and workers.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/core/records.h"
#include "proto/base/ids.h"

namespace stretto::coordinator {

struct HeldRankReply {
  std::string job_uid;
  Epoch epoch;
  Rank rank;
  bool keep = false;  // false: end it, and send nothing more about it
  int64_t acked_sequence = 0;
};
struct SendRegistered {
  absl::Duration lease;
  absl::Duration heartbeat_interval;
  std::vector<HeldRankReply> held;
};
struct AssignedRank {
  Rank rank;
  int32_t slot = 0;
};
struct SendAssign {
  std::string job_id;
  std::string job_uid;
  Epoch epoch;
  std::string spec;
  int32_t world_size = 1;
  std::vector<AssignedRank> ranks;  // this worker's
  absl::Time create_time;
};
struct SendStop {
  std::string job_id;
  std::string job_uid;
  Epoch epoch;
  std::string reason;
  absl::Duration grace;
};
struct SendAck {
  std::string job_uid;
  Epoch epoch;
  Rank rank;
  int64_t sequence = 0;
};
// End the stream with this status: Aborted (taken over by a newer session), Unavailable (lease
// ended).
struct CloseSession {
  absl::Status status;
};

// For one session of one worker; dropped without harm when that session has ended, because the
// worker learns all it has missed when it registers again.
struct Send {
  std::string worker;
  int64_t session = 0;
  std::variant<SendRegistered, SendAssign, SendStop, SendAck, CloseSession> message;
};

struct Effects {
  // Answer to the event. Not ok: all other fields are empty and nothing has changed.
  absl::Status status;
  std::string
      job_id;  // CreateJob, CancelJob: the job meant (on a repeated request: the existing one)
  // RankReported: not seen before by this process; false for a repeated report. The service adds
  // fresh reports, and only those, to its step history.
  bool fresh = false;

  std::vector<Record> persist;  // at most one per object
  std::vector<Send> sends;
  std::vector<std::string> changed_jobs;  // ids, sorted; step numbers alone are no change
  std::vector<std::string>
      changed_workers;  // ids, sorted; heartbeats and use of slots are no change
};

}  // namespace stretto::coordinator

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The effects of an event. They are executed in this order: persist, all in one transaction; then
// sends, in order; then notices of changed jobs and workers.

#include <cstdint>
#include <set>
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
  Rank rank = 0;
  bool keep = false;  // false: end it, and send no more reports of it
  int64_t acked_sequence = 0;
};
struct SendRegistered {
  absl::Duration lease;
  absl::Duration heartbeat_interval;
  std::vector<HeldRankReply> held;
  std::string cluster_id = {};
  absl::Duration end_grace;  // of ranks to end, which are asked for a checkpoint first
};
struct AssignedRank {
  Rank rank = 0;
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
  int32_t attempt = 1;
  int64_t saved_step = 0;  // of the newest checkpoint of an earlier attempt; 0: none
  int32_t layout = 0;      // of restart.layouts, from 1; 0: the spec's own
};
struct SendStop {
  std::string job_id;
  std::string job_uid;
  Epoch epoch;
  std::string reason;
  absl::Duration grace;
  bool checkpoint = false;  // before they end
};
// To the worker of rank 0.
struct SendSave {
  std::string job_id;
  std::string job_uid;
  Epoch epoch;
  int64_t request = 0;  // JobRecord::checkpoint_request
};
struct SendAck {
  std::string job_uid;
  Epoch epoch;
  Rank rank = 0;
  int64_t sequence = 0;
};
// Ends the stream with this status: Aborted (a newer session took over), Unavailable (the lease
// ended).
struct CloseSession {
  absl::Status status;
};

// A message for one session of one worker. It is dropped if that session has ended; this is
// harmless, because the worker learns all it has missed when it registers again.
struct Send {
  std::string worker;
  int64_t session = 0;
  std::variant<SendRegistered, SendAssign, SendStop, SendSave, SendAck, CloseSession> message;
};

struct ErasedJob {
  std::string id;
  std::string uid;
};

struct Effects {
  // The answer to the event. If it is not ok, all other fields are empty and nothing has changed.
  absl::Status status;
  // Of requests that concern a job: that job; for a repeated request, the existing job.
  std::string job_id;
  // RankReported: this process sees the report for the first time; false for a repeated report. The
  // service adds only fresh reports to its step history.
  bool fresh = false;

  std::vector<Record> persist;  // at most one per object
  std::vector<Send> sends;
  // Ids, sorted. Step numbers alone are no change of a job, and heartbeats and use of slots are no
  // change of a worker.
  std::vector<std::string> changed_jobs;
  std::vector<ErasedJob> erased_jobs;
  std::vector<std::string> changed_workers;
  // Ids of jobs of which an attempt has ended, or that have ended or are retired: a summary is
  // stored with them.
  std::set<std::string> summaries;
};

}  // namespace stretto::coordinator

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The coordinator's records of jobs, and which of them a store keeps. Plain values.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/core/event_log.h"
#include "coordinator/core/shared_bytes.h"
#include "coordinator/membership/membership.h"
#include "coordinator/placement/placement.h"
#include "proto/base/exit_reason.h"
#include "proto/base/ids.h"

namespace stretto::coordinator {

// Values equal those of v1alpha1.Job.State.
enum class JobState {
  kPending = 1,
  kPreparing = 2,
  kRunning = 3,
  kCancelling = 4,
  kSucceeded = 5,
  kFailed = 6,
  kCancelled = 7,
  kSuspending = 8,
  kSuspended = 9,
};
const char* JobStateName(JobState state);  // "PENDING"
bool IsEnded(JobState state);
// Holds slots: PREPARING, RUNNING, CANCELLING, SUSPENDING.
bool IsActive(JobState state);

// Values equal those of v1alpha1.Condition.Status.
enum class ConditionStatus { kTrue = 1, kFalse = 2, kUnknown = 3 };

struct Condition {
  std::string type;  // as v1alpha1.Condition.type lists them
  ConditionStatus status = ConditionStatus::kUnknown;
  std::string reason;
  std::string message;
  absl::Time last_transition_time;  // of the status; unchanged by a new reason or message
  bool operator==(const Condition&) const = default;
};

// A rank moves only downwards in this list.
enum class RankState {
  kAssigned = 1,
  kPrepared = 2,
  kExited = 3,  // its process reported its end
  kLost = 4,    // its worker or its process disappeared without a report
};

struct RankRecord {
  std::string worker;
  int32_t slot = 0;
  RankState state = RankState::kAssigned;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string exit_reason;  // NameOf an ExitReason, as reported
  int64_t last_step = 0;    // last finished step; stored only along with a transition

  bool gone() const { return state == RankState::kExited || state == RankState::kLost; }
  bool completed() const {
    return state == RankState::kExited && exit_code == 0 && signal == 0 &&
           Succeeds(ExitReasonOf(exit_reason));
  }
  bool operator==(const RankRecord&) const = default;
};

struct FirstFailure {
  int32_t rank = 0;
  std::string worker;
  int32_t exit_code = 0;
  int32_t signal = 0;
  std::string reason;  // NameOf an ExitReason; that of condition Succeeded
  std::string message;
  int64_t step = 0;
  std::string phase;
  std::string last_operation;
  absl::Time time;
  std::string Text() const;  // "rank 0 on worker a: killed by signal 9"
  bool operator==(const FirstFailure&) const = default;
};

// Values equal those of v1alpha1.RestartSpec.Cause.
enum class RestartCause {
  kNone = 0,
  kCrash = 1,
  kNodeLoss = 2,
  kHang = 3,
  kOutOfMemory = 4,
  kPreemption = 5,
};

struct RestartPolicy {
  int32_t max = 0;  // restarts
  absl::Duration backoff;
  std::set<RestartCause> on;
  bool operator==(const RestartPolicy&) const = default;
};

// A job from one placement to the end of its last rank.
struct AttemptRecord {
  int32_t number = 1;
  Epoch epoch;
  std::vector<std::string> workers;  // sorted
  absl::Time start_time;             // of the placement
  std::optional<absl::Time> end_time;
  int64_t from_step = 0;   // of the checkpoint that it can continue from; 0: none
  int64_t saved_step = 0;  // of its newest checkpoint; 0: none
  int64_t steps = 0;       // steps_done() at its end
  int32_t layout = 0;      // as JobRecord::layout
  RestartCause cause = RestartCause::kNone;
  std::optional<FirstFailure> first_failure;
  // The step that a later attempt can continue from.
  int64_t safe_step() const { return saved_step > 0 ? saved_step : from_step; }
  bool operator==(const AttemptRecord&) const = default;
};

struct JobRecord {
  static constexpr size_t kKeptAttempts = 16;

  std::string id;
  std::string uid;
  std::string spec;  // serialised v1alpha1.JobSpec; opaque here
  Gang gang;
  std::vector<Gang> fallbacks = {};  // gangs of spec.restart.layouts, in order
  int32_t device_kind = 0;
  int64_t total_steps = 0;
  int32_t priority = 0;
  std::string project = "default";
  std::map<std::string, std::string> labels = {};
  std::string owner = {};   // name of the user who created it; empty: unknown
  bool saves = true;        // it can write checkpoints
  std::string request_id;   // of CreateJob; may be empty
  std::string fingerprint;  // of CreateJob's body

  int64_t number = 0;  // order of creation over the whole cluster, from 1
  JobState state = JobState::kPending;
  std::vector<Condition> conditions;  // at most one per type, in order of first appearance
  absl::Time create_time;
  std::optional<absl::Time> start_time;  // first rank prepared
  std::optional<absl::Time> end_time;
  // Since when no more is kept of the ended job than RetiredRecord has (retired_jobs.h).
  std::optional<absl::Time> retire_time;
  int32_t attempt = 0;            // 0: never placed
  Epoch epoch;                    // of the newest attempt
  int32_t layout = 0;             // of the newest attempt: number of a fallback, from 1; 0: `gang`
  std::vector<RankRecord> ranks;  // by rank; empty while PENDING or SUSPENDED
  std::optional<RestartPolicy> restart;
  int32_t restarts = 0;                         // that count towards restart->max
  std::vector<AttemptRecord> attempts;          // the newest kKeptAttempts, oldest first
  std::optional<absl::Time> next_attempt_time;  // of a PENDING job that failed: not earlier
  std::optional<absl::Time> suspend_time;       // of a SUSPENDED job: since when
  absl::Duration paused;                        // before it was resumed: SUSPENDED, or ended

  // The next four are of the newest attempt.
  std::string preempted_by;  // id of the job that its slots are to go to; empty: none
  // Set once, when the gang has to end early: the reason. Its workers have been told to stop.
  std::string stop_reason;
  bool stop_with_checkpoint = false;  // they were asked to write one first
  // Set once, by the first rank that failed on its own.
  std::optional<FirstFailure> first_failure;
  // The best explanation while only consequences are known (a rank lost its peer, or its daemon
  // stopped it). Becomes first_failure if the job ends without a better one.
  std::optional<FirstFailure> suspect;

  std::string last_checkpoint;  // "step-00000100"
  std::string best_checkpoint;  // by held-out loss; empty unless the job keeps it
  // Of the newest checkpoint report of the newest attempt, good or bad.
  int64_t last_checkpoint_step = 0;
  // Number of the newest CheckpointJob, from 1. Condition CheckpointRequested is TRUE until it has
  // its answer.
  int64_t checkpoint_request = 0;
  // From create_time to the latest rank's report.
  std::optional<absl::Duration> submit_to_first_operation;
  std::optional<absl::Duration> submit_to_first_step;
  EventLog events;
  SharedBytes summary;  // opaque; attached by the driver when an attempt or the job ends

  const Gang& GangIn(int32_t number) const {
    return number == 0 ? gang : fallbacks[static_cast<size_t>(number) - 1];
  }
  int32_t world_size() const { return GangIn(layout).ranks(); }
  std::vector<RankSlot> slots() const;  // by rank
  // The number of steps that all ranks have finished, not counting those that a later attempt does
  // again.
  int64_t steps_done() const;
  const Condition* FindCondition(const std::string& type) const;
  bool operator==(const JobRecord&) const = default;
};

// Never decreases. Stored in the same batch as the assignment that uses it.
struct EpochRecord {
  Epoch last;
  bool operator==(const EpochRecord&) const = default;
};

// Removes a job: it was deleted, or its creation may or may not have been stored (see driver.h).
struct JobErased {
  std::string id;
  bool operator==(const JobErased&) const = default;
};

// The same for a worker.
struct WorkerErased {
  std::string id;
  bool operator==(const WorkerErased&) const = default;
};

// An upsert by job id, by worker id, or of the one epoch; or an erasure.
using Record = std::variant<JobRecord, WorkerRecord, EpochRecord, JobErased, WorkerErased>;

// The full contents of a store.
struct Snapshot {
  std::vector<JobRecord> jobs;        // by number
  std::vector<WorkerRecord> workers;  // by id
  EpochRecord epoch;
  std::string cluster_id;  // set when the store is created, and never changed
  bool operator==(const Snapshot&) const = default;
};

}  // namespace stretto::coordinator

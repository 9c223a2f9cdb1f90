// SPDX-License-Identifier: Apache-2.0
#pragma once
// The steps that trainers have reported. They are kept in memory and never in the store, because
// the daemons keep every report and replay them after a restart of the coordinator. When a job
// ends, a summary that is small enough to store is kept with it.
//
// Not thread-safe: belongs to the loop.

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/records.h"
#include "proto/base/limits.h"
#include "stretto/v1alpha1/job.pb.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto::service {

// The history of one job. Add each report once (the core reports which are fresh).
class JobHistory {
 public:
  // The newest are kept, about 0.4 KiB each, up to limits::kHistoryBytes.
  static constexpr size_t kMaxSteps = limits::kHistorySteps.value;
  static constexpr size_t kMaxSummarySteps = 2'000;

  JobHistory() = default;
  // Restores what happened before this process began, from the result of Summary. Steps of a later
  // attempt may be added.
  explicit JobHistory(const std::string& summary);

  // The steps that an attempt does again replace those of the attempt before.
  void AddStep(int32_t rank, const v1alpha1::StepReport& step);
  // The sum of steps that cannot be added one by one, because the rank's log has dropped them.
  void AddDropped(int32_t rank, const v1alpha1::Ledger& ledger);
  void SetProfile(const v1alpha1::Profile& profile) { profile_ = profile; }
  // Keeps the newest texts, at most kMaxSamples and kMaxSampleBytes of them. Those of a step that
  // an attempt does again replace those of the attempt before.
  static constexpr size_t kMaxSamples = limits::kHistorySamples.value;
  static constexpr int64_t kMaxSampleBytes = limits::kHistorySampleBytes.value;
  void AddSamples(const v1alpha1::Samples& samples);
  // The step of the newest texts; 0: none.
  int64_t sampled_step() const { return samples_.empty() ? 0 : samples_.back().step(); }
  // Keeps what the ranks chose and found, which is equal for every rank.
  void SetChoices(const v1alpha1::RankPrepared& prepared);

  // Returns the first step of rank 0 after `step`, or nothing if there is none yet.
  std::optional<v1alpha1::StepReport> NextStep(int64_t step) const;

  // For drawing, serialised StepReports of rank 0 in order. A curve has up to `most` steps without
  // ledgers: the first, the last, those with an evaluation (unless that is more than half of
  // `most`), and others that are evenly spread. Ledgers of an ended job are gone after a restart.
  std::vector<std::string> Curve(size_t most) const;
  std::vector<std::string> Newest(size_t most) const;

  // Fills in progress, profile, samples and what the ranks chose.
  void Describe(const coordinator::JobRecord& record, v1alpha1::Job* job) const;

  // As Describe, from the result of Summary.
  static void DescribeEnded(const std::string& summary, v1alpha1::Job* job);

  // Returns the same and up to kMaxSummarySteps steps without ledgers, as delimited
  // WatchJobResponse messages: what a watcher would receive. The steps are those of a curve.
  std::string Summary(const coordinator::JobRecord& record) const;

  // Returns what is kept of such a summary when the job is retired: its progress without ledgers,
  // less than 400 bytes.
  static std::string Shortened(const std::string& summary);

 private:
  void Restore(const v1alpha1::Progress& progress);
  void NoteEvaluation(const v1alpha1::StepReport& step);
  // Drops the steps from `step` on, which a new attempt does again.
  void ForgetFrom(int64_t step);
  v1alpha1::Progress Live(const coordinator::JobRecord& record) const;
  // Positions in steps_, ascending.
  std::set<size_t> StepsOfCurve(size_t most) const;

  std::deque<std::pair<int64_t, std::string>> steps_;  // rank 0: step, serialised StepReport
  int64_t step_bytes_ = 0;                             // of them
  std::map<int32_t, v1alpha1::Ledger> ledgers_;        // by rank, summed
  std::deque<v1alpha1::StepReport> recent_;            // rank 0: the newest few, without ledgers
  std::set<int64_t> evaluated_;                        // steps of steps_ with an evaluation
  v1alpha1::StepReport last_evaluated_;                // the last of them; step 0: none
  int32_t attempt_ = 0;                                // of the newest step; 0: none yet
  double first_loss_ = 0;
  int64_t skipped_updates_ = 0;
  v1alpha1::RankPrepared choices_;  // merged_wgrads, warm_ups and epoch_sequences alone
  std::optional<v1alpha1::Profile> profile_;
  std::deque<v1alpha1::Samples> samples_;  // by step
  // Set when read from a summary, until a step is added.
  std::optional<v1alpha1::Progress> final_progress_;
};

// The histories of all jobs that have not ended and of the kMaxEnded most recently used ended ones.
// Others are read back from the summary in their record.
class Histories {
 public:
  static constexpr size_t kMaxEnded = 16;

  // Valid until the next call.
  JobHistory& Of(const coordinator::JobRecord& record);

  // Fills in what JobHistory::Describe does, and reads no step of an ended job for it.
  void Describe(const coordinator::JobRecord& record, v1alpha1::Job* job);

  void Forget(const std::string& uid);

 private:
  std::map<std::string, JobHistory> by_uid_;
  std::list<std::string> ended_;  // uids, most recently used first
};

}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0
#pragma once
// A coordinator in a test: the real core, driver and memory store, a fake time, and workers that
// only exist as the events they send. Everything that happens is written down as text, in order.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "coordinator/core/driver.h"
#include "coordinator/store/job_store.h"

namespace stretto::coordinator::testing {

class Scene final : public Transport, public Persistence {
 public:
  explicit Scene(CoreOptions options = {});

  // uid is "uid-ID".
  Result Submit(const std::string& id, Gang gang, const std::string& request = "",
                const std::string& body = "body", bool validate_only = false, int32_t kind = 1);
  // Of blocks of one rank.
  Result Submit(const std::string& id, int32_t ranks, const std::string& request = "",
                const std::string& body = "body", bool validate_only = false, int32_t kind = 1) {
    return Submit(id, Gang{.stages = {{.blocks = ranks}}}, request, body, validate_only, kind);
  }
  // Of the jobs that are submitted next.
  std::optional<RestartPolicy> policy;
  std::vector<Gang> fallbacks;  // their other layouts
  int32_t priority = 0;
  std::string project = "default";
  bool saves = true;
  Result Cancel(const std::string& id);
  Result Checkpoint(const std::string& id);
  Result Suspend(const std::string& id);
  Result Resume(const std::string& id);
  Result Cordon(const std::string& worker, bool drain = false);
  Result Uncordon(const std::string& worker);
  Result Delete(const std::string& id);
  Result Forget(const std::string& worker);
  // `held` in the scene's words: (job id, rank, alive), of the job's epoch.
  struct Held {
    std::string job;
    int32_t rank = 0;
    bool alive = true;
    std::optional<int64_t> epoch = std::nullopt;
    int64_t last_sequence = 0;
  };
  // `gpus` slots of kGpuKind come after the `slots` of kind 1.
  Result Register(const std::string& worker, int32_t slots, const std::vector<Held>& held = {},
                  const std::string& incarnation = "i1", const std::string& host = "host-1",
                  int32_t gpus = 0);
  Result Disconnect(const std::string& worker);
  // "too long".
  Result RefuseAssignment(const std::string& worker, const std::string& job, Epoch epoch);
  Result Heartbeat(const std::string& worker, std::vector<SlotHealth> health = {});
  // These ranks of a worker do not move, and then the core ticks; of the job's epoch if it is not
  // given.
  Result Still(const std::string& worker, const std::string& job,
               const std::map<int32_t, RankPosition>& ranks,
               std::optional<Epoch> epoch = std::nullopt);
  // The next report of a rank in the job's epoch; a refused one is sent again by Replay only.
  Result Report(const std::string& job, int32_t rank, decltype(RankReported::report) report);
  // Any report, as it is.
  Result Report(RankReported report);
  // All reports of a rank in the job's epoch, from `first` on.
  void Replay(const std::string& job, int32_t rank, int64_t first = 1);
  // The report that Report(job, rank, report) would send.
  RankReported MakeReport(const std::string& job, int32_t rank,
                          decltype(RankReported::report) report, int64_t sequence) const;
  // Time passes in one step; `alive` workers send a heartbeat at the end, then the core ticks.
  void Advance(absl::Duration duration, const std::vector<std::string>& alive = {});
  // The wall clock alone.
  void JumpWallClock(absl::Duration jump) { wall_jump_ += jump; }
  // The coordinator dies and comes back from its store. Sessions are gone.
  void Restart();
  // From the next restart on.
  void SetQuotas(const Quotas& quotas) { options_.quotas = quotas; }

  // Shortcuts.
  void Prepare(const std::string& job);  // all ranks
  Result Exit(const std::string& job, int32_t rank, RankExited exit);
  void Complete(const std::string& job);  // all ranks exit well

  JobRecord job(const std::string& id) const { return Copy(id); }
  // The events of a job, a line each: "RUNNING Placed by CALLER: MESSAGE".
  std::string EventsOf(const std::string& id) const;
  // Condition Scheduled as people see it: "REASON: MESSAGE".
  std::string Why(const std::string& id) const;
  Core core() const {
    return driver_->Read([](const Core& core) { return core; });
  }
  FaultyStore& store() { return faulty_; }
  absl::Time now() const { return now_ + wall_jump_; }

  // What was persisted, sent and published since the last call.
  std::vector<std::string> TakeLog() { return std::exchange(log_, {}); }
  std::string TakeText();

 private:
  absl::Status Commit(const std::vector<Record>& records) override;
  void SendToWorker(const Send& send) override;
  void JobChanged(const JobRecord& job) override;
  void JobDeleted(const ErasedJob& job) override;
  void WorkerChanged(const Worker& worker) override;
  std::string FinalSummary(const JobRecord& job) override;

  Result Do(const Event& event);
  JobRecord Copy(const std::string& id) const;

  CoreOptions options_;
  std::unique_ptr<JobStore> memory_ = NewMemoryStore();
  FaultyStore faulty_{*memory_};
  absl::Time now_ = absl::FromUnixSeconds(1000);
  absl::Duration wall_jump_;
  std::unique_ptr<Driver> driver_;
  int64_t next_session_ = 1;
  std::map<std::string, int64_t> sessions_;
  // By job, epoch and rank.
  std::map<std::tuple<std::string, Epoch, int32_t>, std::vector<RankReported>> reports_;
  std::map<std::string, std::vector<Condition>> conditions_;  // as last published
  std::vector<std::string> log_;
};

RankExited Completed();
RankExited Killed(int32_t signal);
// Ended along with its gang.
RankExited Stopped();
RankExited Failed(int32_t code, const std::string& reason);

// Errors as "FAILED_PRECONDITION: message".
std::string StatusText(const absl::Status& status);

}  // namespace stretto::coordinator::testing

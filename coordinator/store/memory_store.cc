// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/store/job_store.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

// A copy shares the jobs, which are large.
struct Content {
  std::map<std::string, std::shared_ptr<const JobRecord>> jobs;
  std::map<std::string, WorkerRecord> workers;
  EpochRecord epoch;

  absl::Status Put(const JobRecord& job) {
    for (const auto& [id, other] : jobs) {
      if (id == job.id || (other->uid != job.uid && other->number != job.number)) continue;
      return absl::AlreadyExistsError(absl::StrCat("job \"", job.id, "\" (uid ", job.uid,
                                                   ", number ", job.number,
                                                   ") repeats a stored job's uid or number"));
    }
    jobs[job.id] = std::make_shared<const JobRecord>(job);
    return absl::OkStatus();
  }
  absl::Status Put(const WorkerRecord& worker) {
    workers[worker.id] = worker;
    return absl::OkStatus();
  }
  absl::Status Put(const EpochRecord& record) {
    if (record.last < epoch.last) {
      return absl::InvalidArgumentError(absl::StrCat(
          "epoch ", record.last.value(), " is lower than the stored one, ", epoch.last.value()));
    }
    epoch = record;
    return absl::OkStatus();
  }
  absl::Status Put(const JobErased& erased) {
    jobs.erase(erased.id);
    return absl::OkStatus();
  }
  absl::Status Put(const WorkerErased& erased) {
    workers.erase(erased.id);
    return absl::OkStatus();
  }
};

class MemoryStore final : public JobStore {
 public:
  absl::StatusOr<Snapshot> Load() override {
    Snapshot snapshot;
    std::map<int64_t, const JobRecord*> by_number;
    for (const auto& [id, job] : content_.jobs) by_number[job->number] = job.get();
    for (const auto& [number, job] : by_number) snapshot.jobs.push_back(*job);
    for (const auto& [id, worker] : content_.workers) snapshot.workers.push_back(worker);
    snapshot.epoch = content_.epoch;
    snapshot.cluster_id = cluster_id_;
    return snapshot;
  }

  absl::Status Commit(const std::vector<Record>& records) override {
    Content next = content_;
    for (const Record& record : records) {
      RETURN_IF_ERROR(std::visit([&next](const auto& r) { return next.Put(r); }, record));
    }
    content_ = std::move(next);
    return absl::OkStatus();
  }

 private:
  const std::string cluster_id_ = NewUid();
  Content content_;
};

}  // namespace

std::unique_ptr<JobStore> NewMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace stretto::coordinator

// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "coordinator/store/job_store.h"

namespace stretto::coordinator {
namespace {

class ObservedStore final : public JobStore {
 public:
  ObservedStore(std::unique_ptr<JobStore> store, const Clock& clock,
                std::function<void(absl::Duration, const absl::Status&)> observer)
      : store_(std::move(store)), clock_(clock), observer_(std::move(observer)) {}

  absl::StatusOr<Snapshot> Load() override { return store_->Load(); }
  absl::Status Commit(const std::vector<Record>& records) override {
    const absl::Duration begin = clock_.Monotonic();
    absl::Status status = store_->Commit(records);
    observer_(clock_.Monotonic() - begin, status);
    return status;
  }

 private:
  const std::unique_ptr<JobStore> store_;
  const Clock& clock_;
  const std::function<void(absl::Duration, const absl::Status&)> observer_;
};

}  // namespace

std::unique_ptr<JobStore> ObserveStore(
    std::unique_ptr<JobStore> store, const Clock& clock,
    std::function<void(absl::Duration, const absl::Status&)> observer) {
  return std::make_unique<ObservedStore>(std::move(store), clock, std::move(observer));
}

}  // namespace stretto::coordinator

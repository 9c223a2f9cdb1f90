// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/job_store.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {

// Workers and checkpoints may know epochs that the store does not.
absl::StatusOr<Epoch> SkipEpochs(JobStore& store) {
  constexpr int64_t kMoreThanSinceAnyCopy = 1'000'000;
  ASSIGN_OR_RETURN(const Snapshot snapshot, store.Load());
  const Epoch next(snapshot.epoch.last.value() + kMoreThanSinceAnyCopy);
  RETURN_IF_ERROR(store.Commit({EpochRecord{next}}));
  return next;
}

}  // namespace stretto::coordinator

// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/work_together.h"

#include <optional>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::trainer {
namespace {

// The end of the work, which one thread sets and another awaits.
class Ending {
 public:
  void Set(absl::Status status) {
    {
      const MutexLock lock(mu_);
      status_ = std::move(status);
    }
    changed_.NotifyAll();
  }
  // Waits for it for at most `interval`. Returns nullopt if the work has not ended.
  std::optional<absl::Status> Await(absl::Duration interval) {
    const MutexLock lock(mu_);
    changed_.WaitFor(mu_, absl::ToChronoNanoseconds(interval),
                     [this]() REQUIRES(mu_) { return status_.has_value(); });
    return status_;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::optional<absl::Status> status_ GUARDED_BY(mu_);
};

}  // namespace

absl::Status WorkTogether(Communicator& group, const std::function<absl::Status()>& work,
                          absl::Duration interval) {
  if (group.size() == 1) return work();
  Ending ending;
  const std::jthread worker([&] { ending.Set(work()); });
  while (true) {
    const std::optional<absl::Status> status = ending.Await(interval);
    ASSIGN_OR_RETURN(const bool busy, AnyRank(group, !status.has_value()));
    if (!busy) return *status;
  }
}

}  // namespace stretto::trainer

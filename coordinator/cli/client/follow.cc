// SPDX-License-Identifier: Apache-2.0

// Opens a stream, forwards its events, and opens it again when it breaks. Reconnector decides which
// errors are worth another attempt, waits in between, and tells the user once that the connection
// was lost and once that it is back. The next stream begins after the last event that was shown.

#include "coordinator/cli/client/follow.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/text/job_text.h"
#include "proto/base/clock.h"
#include "proto/base/printable.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

// Reports lost and restored connections, once each, and decides when to stop trying.
class Reconnector {
 public:
  Reconnector(const Invocation& invocation, const std::function<void(const std::string&)>& notice)
      : invocation_(invocation), notice_(notice) {}

  // Called when a stream is opened. Unless it may be silent for long, a stream without any event
  // counts as a loss.
  void Opened(bool may_stay_silent) { silence_is_fine_ = may_stay_silent; }

  void Connected() {
    silence_is_fine_ = true;
    if (lost_) notice_(absl::StrCat("reconnected to ", invocation_.client.address()));
    lost_ = false;
    heard_ = Clock::Real().Monotonic();
  }

  // Called after the stream broke with `status`. Waits a little and returns OK to try again.
  absl::Status Wait(const absl::Status& status) {
    // Our own deadline ends an idle stream regularly, so this is no loss.
    const bool expired = status.code() == absl::StatusCode::kDeadlineExceeded;
    if (expired && silence_is_fine_ && !lost_) return absl::OkStatus();
    if (!lost_) {
      heard_ = Clock::Real().Monotonic();
      notice_(absl::StrCat("lost the coordinator at ", invocation_.client.address(), " (",
                           Printable(status.message()), "); the job continues; retrying for ",
                           stretto::FormatDuration(invocation_.give_up)));
    }
    lost_ = true;
    if (Clock::Real().Monotonic() - heard_ >= invocation_.give_up) {
      return absl::UnavailableError(absl::StrCat(status.message(), "; gave up after ",
                                                 stretto::FormatDuration(invocation_.give_up)));
    }
    invocation_.interrupt.WaitFor(invocation_.retry_interval);
    return absl::OkStatus();
  }

 private:
  const Invocation& invocation_;
  const std::function<void(const std::string&)>& notice_;
  bool lost_ = false;
  bool silence_is_fine_ = false;
  absl::Duration heard_ = Clock::Real().Monotonic();
};

}  // namespace

bool IsTransient(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  // The next coordinator continues.
  if (reason == "SHUTTING_DOWN" || reason == "STANDBY") return true;
  // A coordinator gives a reason with its errors; an error without one occurred on the way.
  if (!reason.empty()) return false;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:  // the server is shutting down
    case absl::StatusCode::kInternal:   // the stream was reset
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    default:  // any other code of absl
      return false;
  }
}

absl::StatusOr<FollowResult> FollowJob(const Invocation& invocation, const std::string& name,
                                       const FollowHandlers& handlers, int64_t after_step) {
  FollowResult result;
  Reconnector reconnector(invocation, handlers.on_notice);
  int64_t last_step = after_step;
  const auto is_enough = [&handlers](const v1alpha1::Job& job) {
    return HasEnded(job.state()) || (handlers.is_enough != nullptr && handlers.is_enough(job));
  };
  while (true) {
    v1alpha1::WatchJobRequest request;
    request.set_name(name);
    request.set_after_step(last_step);
    reconnector.Opened(false);  // its first event is the job
    absl::Status status =
        invocation.client.WatchJob(request, [&](const v1alpha1::WatchJobResponse& event) {
          reconnector.Connected();
          if (event.has_job()) {
            result.job = event.job();
            handlers.on_job(event.job());
          } else if (event.has_step() && event.step().step() > last_step) {
            last_step = event.step().step();
            handlers.on_step(event.step());
          }
          return !event.has_job() || HasEnded(event.job().state()) || !is_enough(event.job());
        });
    if (is_enough(result.job)) return result;
    if (invocation.interrupt.raised()) {
      result.detached = true;
      return result;
    }
    if (status.ok()) status = absl::UnavailableError("the stream ended before the job");
    if (!IsTransient(status)) return status;
    if (absl::Status wait = reconnector.Wait(status); !wait.ok()) return wait;
  }
}

absl::Status FollowLogs(const Invocation& invocation, const std::string& name, int rank,
                        bool follow, const std::function<void(int, const std::string&)>& sink,
                        const std::function<void(const std::string&)>& on_notice) {
  std::map<int, size_t> shown;  // bytes per rank; a new stream starts at the beginning
  Reconnector reconnector(invocation, on_notice);
  while (true) {
    v1alpha1::StreamJobLogsRequest request;
    request.set_name(name);
    request.set_follow(follow);
    if (rank >= 0) request.set_rank(rank);
    std::map<int, size_t> seen;
    reconnector.Opened(true);
    const absl::Status status = invocation.client.StreamJobLogs(
        request, [&](const v1alpha1::StreamJobLogsResponse& response) {
          reconnector.Connected();
          size_t& before = seen[response.rank()];
          size_t& done = shown[response.rank()];
          const std::string& data = response.data();
          if (before + data.size() > done) {
            sink(response.rank(), data.substr(done - before));
            done = before + data.size();
          }
          before += data.size();
          return true;
        });
    if (status.ok()) return status;
    if (invocation.interrupt.raised()) return absl::CancelledError("interrupted");
    if (!follow || !IsTransient(status)) return status;
    if (absl::Status wait = reconnector.Wait(status); !wait.ok()) return wait;
  }
}

}  // namespace stretto::cli

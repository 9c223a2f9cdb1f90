// SPDX-License-Identifier: Apache-2.0

// Opens a stream, forwards its events, and opens it again when it breaks. The next stream begins
// after the last event that was shown.

#include "coordinator/cli/client/follow.h"

#include <map>

#include "coordinator/cli/client/reconnector.h"
#include "coordinator/cli/text/job_text.h"

namespace stretto::cli {

absl::StatusOr<FollowResult> FollowJob(const Invocation& invocation, const std::string& name,
                                       const FollowHandlers& handlers, int64_t after_step) {
  FollowResult result;
  Reconnector reconnector(invocation, "the job continues", handlers.on_notice);
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

absl::Status FollowLogs(const Invocation& invocation, v1alpha1::StreamJobLogsRequest request,
                        const std::function<void(int, const std::string&)>& sink,
                        const std::function<void(const std::string&)>& on_notice) {
  std::map<int, v1alpha1::LogPosition> read;  // by rank
  Reconnector reconnector(invocation, "the job continues", on_notice);
  while (true) {
    request.clear_after();
    for (const auto& [rank, position] : read) *request.add_after() = position;
    reconnector.Opened(true);
    const absl::Status status = invocation.client.StreamJobLogs(
        request, [&](const v1alpha1::StreamJobLogsResponse& response) {
          reconnector.Connected();
          sink(response.rank(), response.data());
          read[response.rank()] = response.end();
          return true;
        });
    if (status.ok()) return status;
    if (invocation.interrupt.raised()) return absl::CancelledError("interrupted");
    if (!request.follow() || !IsTransient(status)) return status;
    if (absl::Status wait = reconnector.Wait(status); !wait.ok()) return wait;
  }
}

}  // namespace stretto::cli

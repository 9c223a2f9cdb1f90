// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/commands/top_command.h"

#include "coordinator/cli/commands/list_command.h"
#include "coordinator/cli/commands/worker_commands.h"
#include "coordinator/cli/screen/live_view.h"
#include "coordinator/cli/text/top_text.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

using v1alpha1::Job;

// Jobs that wait may be many, and change nothing on the screen.
constexpr int kMostWaiting = 50;

absl::StatusOr<ClusterView> Look(Client& client) {
  ClusterView view;
  v1alpha1::ListJobsRequest active, waiting;
  for (const Job::State state : {Job::PREPARING, Job::RUNNING, Job::CANCELLING, Job::SUSPENDING}) {
    active.add_states(state);
  }
  waiting.add_states(Job::PENDING);
  ASSIGN_OR_RETURN(const v1alpha1::ListWorkersResponse workers, FetchWorkers(client));
  ASSIGN_OR_RETURN(const v1alpha1::ListJobsResponse running, FetchJobs(client, active, 0));
  ASSIGN_OR_RETURN(const v1alpha1::ListJobsResponse pending,
                   FetchJobs(client, waiting, kMostWaiting + 1));
  view.workers = {workers.workers().begin(), workers.workers().end()};
  view.active = {running.jobs().begin(), running.jobs().end()};
  view.waiting = {pending.jobs().begin(), pending.jobs().end()};
  view.more_waiting = view.waiting.size() > kMostWaiting;
  if (view.more_waiting) view.waiting.pop_back();
  return view;
}

}  // namespace

ExitCode Top(const Invocation& invocation, bool once) {
  ClusterView view;
  const auto look = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(view, Look(invocation.client));
    return absl::OkStatus();
  };
  const bool table = invocation.format == OutputFormat::kTable;
  if (table && !once && invocation.terminal.screen) {
    const absl::Status status = LookUntilInterrupted(
        invocation, {.look = look, .picture = [&] { return TopText(view); }, .tell = [] {}});
    return status.ok() ? kOk : ReportError(invocation, status);
  }
  if (const absl::Status status = look(); !status.ok()) return ReportError(invocation, status);
  if (table) {
    invocation.terminal.out << TopText(view);
  } else {
    PrintDocument(invocation, TopDocument(view));
  }
  return kOk;
}

}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0

// The coordinator selects the jobs; here their pages are joined and shown, once or, with --watch,
// again and again.

#include "coordinator/cli/commands/list_command.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "coordinator/cli/screen/live_view.h"
#include "coordinator/cli/text/job_text.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

constexpr int kJobsPerPage = 100;

v1alpha1::ListJobsRequest RequestOf(const ListOptions& options) {
  v1alpha1::ListJobsRequest request;
  request.set_project(options.project);
  request.set_retired(options.retired);
  for (const std::string& word : options.states) {
    v1alpha1::Job::State state = v1alpha1::Job::STATE_UNSPECIFIED;
    v1alpha1::Job::State_Parse(absl::AsciiStrToUpper(word), &state);  // the flag has checked it
    request.add_states(state);
  }
  for (const std::string& text : options.labels) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    v1alpha1::LabelSelector& label = *request.add_labels();
    label.set_key(parts[0]);
    if (parts.size() > 1) label.set_value(parts[1]);
  }
  return request;
}

bool Selects(const ListOptions& options) {
  return !options.project.empty() || !options.states.empty() || !options.labels.empty() ||
         options.retired;
}

void PrintList(const Invocation& invocation, const v1alpha1::ListJobsResponse& list, bool selects) {
  if (invocation.format != OutputFormat::kTable) {
    PrintMessage(invocation, list);
  } else if (list.jobs_size() == 0) {
    invocation.terminal.err << (selects ? "no such jobs" : "no jobs yet") << "\nNext:\n  "
                            << Hint(invocation,
                                    selects ? "job list" : "job submit JOB.yaml --follow")
                            << "\n";
  } else {
    invocation.terminal.out << JobTable({list.jobs().begin(), list.jobs().end()}, absl::Now());
  }
}

// Prints each job when its state is another one than last time.
class News {
 public:
  explicit News(const Invocation& invocation) : invocation_(invocation) {}

  void Print(const v1alpha1::ListJobsResponse& list) {
    std::vector<v1alpha1::Job> changed;
    std::map<std::string, v1alpha1::Job::State> states;
    for (const v1alpha1::Job& job : list.jobs()) {
      states[job.uid()] = job.state();
      const auto before = states_.find(job.uid());
      if (before == states_.end() || before->second != job.state()) changed.push_back(job);
    }
    states_ = std::move(states);
    if (changed.empty()) return;
    if (invocation_.format != OutputFormat::kTable) {
      for (const v1alpha1::Job& job : changed) PrintEvent(invocation_, job);
      return;
    }
    const std::string rows = JobTable(changed, absl::Now());
    invocation_.terminal.out << (headed_ ? rows.substr(rows.find('\n') + 1) : rows) << std::flush;
    headed_ = true;
  }

 private:
  const Invocation& invocation_;
  std::map<std::string, v1alpha1::Job::State> states_;  // by uid
  bool headed_ = false;
};

}  // namespace

absl::StatusOr<v1alpha1::ListJobsResponse> FetchJobs(Client& client,
                                                     v1alpha1::ListJobsRequest request, int limit) {
  v1alpha1::ListJobsResponse all;
  request.set_page_size(limit == 0 ? kJobsPerPage : std::min(limit, kJobsPerPage));
  do {
    ASSIGN_OR_RETURN(v1alpha1::ListJobsResponse page, client.ListJobs(request));
    request.set_page_token(page.next_page_token());
    for (v1alpha1::Job& job : *page.mutable_jobs()) {
      if (limit == 0 || all.jobs_size() < limit) *all.add_jobs() = std::move(job);
    }
  } while (!request.page_token().empty() && (limit == 0 || all.jobs_size() < limit));
  return all;
}

ExitCode ListJobs(const Invocation& invocation, const ListOptions& options) {
  v1alpha1::ListJobsResponse list;
  News news(invocation);
  const LiveView view{.look = [&]() -> absl::Status {
                        ASSIGN_OR_RETURN(
                            list, FetchJobs(invocation.client, RequestOf(options), options.limit));
                        return absl::OkStatus();
                      },
                      .picture =
                          [&] {
                            return JobTable({list.jobs().begin(), list.jobs().end()}, absl::Now());
                          },
                      .tell = [&] { news.Print(list); }};
  const absl::Status status = options.watch ? LookUntilInterrupted(invocation, view) : view.look();
  if (!status.ok()) return ReportError(invocation, status);
  if (!options.watch) PrintList(invocation, list, Selects(options));
  return kOk;
}

}  // namespace stretto::cli

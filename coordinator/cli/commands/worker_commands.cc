// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/commands/worker_commands.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/worker_text.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

constexpr int kWorkersPerPage = 100;

// Prints what a change has made of the worker.
ExitCode Show(const Invocation& invocation, const absl::StatusOr<v1alpha1::Worker>& worker) {
  if (!worker.ok()) return ReportError(invocation, worker.status());
  if (invocation.format != OutputFormat::kTable) PrintMessage(invocation, *worker);
  const std::string& cordon = worker->cordon();
  invocation.terminal.err << "worker " << ShortResourceName(worker->name())
                          << (cordon.empty() ? " takes work again"
                                             : absl::StrCat(" is cordoned: ", Printable(cordon)))
                          << "\n";
  for (const std::string& job : worker->jobs()) {
    if (!cordon.empty()) invocation.terminal.err << "  runs " << ShortResourceName(job) << "\n";
  }
  return kOk;
}

}  // namespace

absl::StatusOr<v1alpha1::ListWorkersResponse> FetchWorkers(Client& client) {
  v1alpha1::ListWorkersResponse all;
  v1alpha1::ListWorkersRequest request;
  request.set_page_size(kWorkersPerPage);
  do {
    ASSIGN_OR_RETURN(v1alpha1::ListWorkersResponse page, client.ListWorkers(request));
    request.set_page_token(page.next_page_token());
    for (v1alpha1::Worker& worker : *page.mutable_workers()) *all.add_workers() = std::move(worker);
  } while (!request.page_token().empty());
  return all;
}

ExitCode ListWorkers(const Invocation& invocation) {
  const absl::StatusOr<v1alpha1::ListWorkersResponse> all = FetchWorkers(invocation.client);
  if (!all.ok()) return ReportError(invocation, all.status());
  if (invocation.format != OutputFormat::kTable) {
    PrintMessage(invocation, *all);
  } else if (all->workers_size() == 0) {
    invocation.terminal.err
        << "no workers yet\nNext, on each node:\n  stretto-worker --state-dir DIR --coordinator "
        << invocation.client.address() << "\n";
  } else {
    invocation.terminal.out << WorkerTable({all->workers().begin(), all->workers().end()},
                                           absl::Now());
  }
  return kOk;
}

ExitCode GetWorker(const Invocation& invocation, const std::string& name) {
  v1alpha1::GetWorkerRequest request;
  request.set_name(ResourceName("workers", name));
  const absl::StatusOr<v1alpha1::Worker> worker = invocation.client.GetWorker(request);
  if (!worker.ok()) return ReportError(invocation, worker.status());
  if (invocation.format != OutputFormat::kTable) {
    PrintMessage(invocation, *worker);
  } else {
    invocation.terminal.out << DescribeWorker(*worker, absl::Now());
  }
  return kOk;
}

ExitCode CordonWorker(const Invocation& invocation, const std::string& name,
                      const std::string& reason, bool drain) {
  v1alpha1::CordonWorkerRequest request;
  request.set_name(ResourceName("workers", name));
  request.set_reason(reason);
  request.set_drain(drain);
  return Show(invocation, invocation.client.CordonWorker(request));
}

ExitCode UncordonWorker(const Invocation& invocation, const std::string& name) {
  v1alpha1::UncordonWorkerRequest request;
  request.set_name(ResourceName("workers", name));
  return Show(invocation, invocation.client.UncordonWorker(request));
}

ExitCode ForgetWorker(const Invocation& invocation, const std::string& name) {
  v1alpha1::ForgetWorkerRequest request;
  request.set_name(ResourceName("workers", name));
  const absl::StatusOr<v1alpha1::Worker> worker = invocation.client.ForgetWorker(request);
  if (!worker.ok()) return ReportError(invocation, worker.status());
  if (invocation.format != OutputFormat::kTable) PrintMessage(invocation, *worker);
  invocation.terminal.err << "worker " << ShortResourceName(worker->name()) << " is forgotten\n";
  return kOk;
}

}  // namespace stretto::cli

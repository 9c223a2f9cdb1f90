// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/commands/worker_commands.h"

#include <utility>

#include "absl/time/clock.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/worker_text.h"

namespace stretto::cli {
namespace {

constexpr int kWorkersPerPage = 100;

}  // namespace

ExitCode ListWorkers(const Invocation& invocation) {
  v1alpha1::ListWorkersResponse all;
  v1alpha1::ListWorkersRequest request;
  request.set_page_size(kWorkersPerPage);
  do {
    absl::StatusOr<v1alpha1::ListWorkersResponse> page = invocation.client.ListWorkers(request);
    if (!page.ok()) return ReportError(invocation, page.status());
    request.set_page_token(page->next_page_token());
    for (v1alpha1::Worker& worker : *page->mutable_workers()) {
      *all.add_workers() = std::move(worker);
    }
  } while (!request.page_token().empty());
  if (invocation.format != OutputFormat::kTable) {
    PrintMessage(invocation, all);
  } else if (all.workers_size() == 0) {
    invocation.terminal.err
        << "no workers yet\nNext, on each node:\n  stretto-worker --state-dir DIR --coordinator "
        << invocation.client.address() << "\n";
  } else {
    invocation.terminal.out << WorkerTable({all.workers().begin(), all.workers().end()},
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

}  // namespace stretto::cli

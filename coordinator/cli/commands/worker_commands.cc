#include "coordinator/cli/commands/worker_commands.h"

#include <utility>

#include "absl/time/clock.h"
#include "coordinator/cli/text/names.h"
#include "coordinator/cli/text/print_job.h"

namespace stretto::cli {
namespace {

constexpr int kPageSize = 100;

}  // namespace

ExitCode ListWorkers(const Session& session) {
  v1alpha1::ListWorkersResponse all;
  v1alpha1::ListWorkersRequest request;
  request.set_page_size(kPageSize);
  do {
    absl::StatusOr<v1alpha1::ListWorkersResponse> page = session.client.ListWorkers(request);
    if (!page.ok()) return ReportError(session, page.status());
    request.set_page_token(page->next_page_token());
    for (v1alpha1::Worker& worker : *page->mutable_workers()) {
      *all.add_workers() = std::move(worker);
    }
  } while (!request.page_token().empty());
  if (session.format != OutputFormat::kTable) {
    PrintMessage(session, all);
  } else if (all.workers_size() == 0) {
    session.terminal.err << "no workers: start stretto-worker on each node, pointing at "
                         << session.client.address() << "\n";
  } else {
    session.terminal.out << WorkerTable({all.workers().begin(), all.workers().end()}, absl::Now());
  }
  return kOk;
}

ExitCode GetWorker(const Session& session, const std::string& name) {
  v1alpha1::GetWorkerRequest request;
  request.set_name(ResourceName("workers", name));
  const absl::StatusOr<v1alpha1::Worker> worker = session.client.GetWorker(request);
  if (!worker.ok()) return ReportError(session, worker.status());
  if (session.format != OutputFormat::kTable) {
    PrintMessage(session, *worker);
  } else {
    session.terminal.out << DescribeWorker(*worker, absl::Now());
  }
  return kOk;
}

}  // namespace stretto::cli

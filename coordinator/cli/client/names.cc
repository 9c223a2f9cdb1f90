// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/client/names.h"

#include "coordinator/cli/text/resource_name.h"

namespace stretto::cli {

std::vector<std::string> JobNames(Client& client, int most) {
  std::vector<std::string> names;
  v1alpha1::ListJobsRequest request;
  request.set_page_size(most);
  const auto jobs = client.ListJobs(request);
  if (!jobs.ok()) return names;
  for (const v1alpha1::Job& job : jobs->jobs()) names.push_back(ShortResourceName(job.name()));
  return names;
}

std::vector<std::string> WorkerNames(Client& client, int most) {
  std::vector<std::string> names;
  v1alpha1::ListWorkersRequest request;
  request.set_page_size(most);
  const auto workers = client.ListWorkers(request);
  if (!workers.ok()) return names;
  for (const v1alpha1::Worker& worker : workers->workers()) {
    names.push_back(ShortResourceName(worker.name()));
  }
  return names;
}

}  // namespace stretto::cli

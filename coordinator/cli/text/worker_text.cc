// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/worker_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/text/field_lines.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/text/times.h"
#include "proto/base/units.h"

namespace stretto::cli {

using v1alpha1::Worker;

std::string WorkerTable(const std::vector<Worker>& workers, absl::Time now) {
  std::vector<std::string> headings = {"NAME",  "STATE",   "HOST",       ">SLOTS",
                                       ">FREE", ">FAULTY", ">HEARTBEAT", "JOBS"};
  const bool cordons = std::any_of(workers.begin(), workers.end(),
                                   [](const Worker& worker) { return !worker.cordon().empty(); });
  if (cordons) headings.emplace_back("CORDON");
  std::vector<std::vector<std::string>> rows;
  for (const Worker& worker : workers) {
    std::vector<std::string> jobs;
    for (const std::string& job : worker.jobs()) jobs.push_back(ShortResourceName(job));
    int faulty = 0;
    for (const v1alpha1::WorkerDevice& device : worker.devices()) faulty += !device.fault().empty();
    rows.push_back({ShortResourceName(worker.name()), Worker::State_Name(worker.state()),
                    worker.host(), absl::StrCat(worker.slots()), absl::StrCat(worker.free_slots()),
                    absl::StrCat(faulty), Age(worker.last_heartbeat_time(), now),
                    jobs.empty() ? "-" : absl::StrJoin(jobs, ","), worker.cordon()});
  }
  return Table(headings, rows);
}

std::string DescribeWorker(const Worker& worker, absl::Time now) {
  FieldLines fields;
  fields.Add("Name", ShortResourceName(worker.name()));
  fields.Add("Uid", worker.uid());
  fields.Add("State", Worker::State_Name(worker.state()));
  if (!worker.cordon().empty()) fields.Add("Cordon", worker.cordon());
  fields.Add("Host", worker.host());
  fields.Add("Build", worker.build());
  fields.Add("Registered", TimeText(worker.register_time()));
  fields.Add("Heartbeat", absl::StrCat(Age(worker.last_heartbeat_time(), now), " ago"));
  fields.Add("Slots", absl::StrCat(worker.slots(), ", ", worker.free_slots(), " free"));
  fields.Add("Jobs", worker.jobs_size() == 0 ? "-" : absl::StrJoin(worker.jobs(), ", "));
  std::vector<std::vector<std::string>> rows;
  for (const v1alpha1::WorkerDevice& device : worker.devices()) {
    const std::string fault = device.fault().empty() ? "" : absl::StrCat(": ", device.fault());
    rows.push_back({absl::StrCat(device.slot()),
                    Printable(absl::StrCat(device.description(), fault)),
                    device.memory_bytes() > 0 ? FormatBytes(device.memory_bytes()) : "-"});
  }
  return absl::StrCat(fields.text(), "\n", Table({">SLOT", "DEVICE", ">MEMORY"}, rows));
}

}  // namespace stretto::cli

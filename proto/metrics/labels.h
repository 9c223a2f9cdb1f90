// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every label of every metric, and the bound on the number of its values. Values that only grow in
// number, such as steps or requests, are never labels.

#include <string_view>

namespace stretto::metrics {

struct Label {
  std::string_view name;
  std::string_view values;
};

inline constexpr Label kLabels[] = {
    {"training_job",
     "Name of a job (`job` is Prometheus's own label of a target). Jobs that hold slots or wait, "
     "and jobs that ended recently: within five minutes at the coordinator, within "
     "`--metrics-retention` at workers"},
    {"rank", "0 to the number of ranks of the job minus 1; a worker has those that it runs"},
    {"part",
     "Part of the step ledger: `compute_hiding`, `compute_alone`, `exposed`, `pipeline_wait`, "
     "`data_wait`, `checkpoint_wait`, `evaluation`, `idle`"},
    {"group", "Group of ranks that communicate: `tp`, `dp`, `pp`; empty without communication"},
    {"phase", "`forward`, `recompute`, `backward`, `optimizer`; empty without computation"},
    {"arena",
     "`parameter`, `gradient`, `optimizer`, `input`, `output`, `activation`; `checkpoint_copy`"},
    {"gpu", "Index of a GPU of the node, in the driver's numbering"},
    {"uuid", "UUID of a GPU, as reported by the driver"},
    {"worker",
     "Name of a worker: workers with a session, and workers that were lost less than an hour ago"},
    {"device", "Kind of a slot, as in job specs: `cpu`, `cuda`"},
    {"state",
     "For jobs, the states of the API (for their seconds `PENDING`, `PREPARING`, `RUNNING` and, "
     "once there are some, `SUSPENDED`); for workers, `READY` and `LOST`; for slots, `FREE`, "
     "`USED`, `FAULTY`"},
    {"priority", "Of waiting jobs: `negative`, `zero`, `positive`"},
    {"project", "Projects with a `--quota`; all others are `(other)`"},
    {"cause", "Why an attempt failed: `Crash`, `NodeLoss`, `Hang`, `OutOfMemory`, `Preemption`"},
    {"code", "Status code of gRPC"},
    {"method", "Method of our services, `PACKAGE.SERVICE/METHOD`"},
    {"certificate", "Of a daemon: `own`, and `ca`, that of the CA which issued it"},
    {"limit", "Of connections: `all` or `machine`"},
    {"version", "One for each daemon"},
    {"protocol", "One for each daemon"},
};

}  // namespace stretto::metrics

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
     "A job's name (`job` is Prometheus's own label of a target). Jobs that hold slots or wait, "
     "and "
     "those that ended a few minutes ago: five at the coordinator, `--metrics-retention` at "
     "workers"},
    {"rank", "0 to the ranks of the job less 1; a worker has those that it runs"},
    {"part",
     "Of the step ledger: `compute_hiding`, `compute_alone`, `exposed`, `data_wait`, "
     "`checkpoint_wait`, `evaluation`, `idle`"},
    {"group", "Of ranks that communicate: `tp`; empty where nobody does"},
    {"phase", "`forward`, `recompute`, `backward`, `optimizer`; empty where nothing is computed"},
    {"arena", "`parameter`, `gradient`, `optimizer`, `input`, `output`, `activation`"},
    {"gpu", "Numbers of a node's GPUs, as the driver counts them"},
    {"uuid", "One for each of them, as the driver says it"},
    {"worker",
     "A worker's name: those with a session, and those that were lost less than an hour ago"},
    {"device", "What a slot has, as in job specs: `cpu`, `cuda`"},
    {"state",
     "Of jobs the states of the API (of their seconds `PENDING`, `PREPARING`, `RUNNING`), of "
     "workers `READY` and `LOST`, of slots `FREE`, `USED`, `FAULTY`"},
    {"code", "gRPC's status codes"},
    {"method", "The methods of our services, `PACKAGE.SERVICE/METHOD`"},
    {"version", "One for each daemon"},
    {"protocol", "One for each daemon"},
};

}  // namespace stretto::metrics

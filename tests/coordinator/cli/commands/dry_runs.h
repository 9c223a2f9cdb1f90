// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workers and dry runs as a coordinator and the planner tell them.

#include <string>
#include <vector>

#include "proto/base/units.h"
#include "stretto/v1alpha1/plan.pb.h"

namespace stretto::cli {

// Cores have 4 GiB each, GPUs 80.
inline v1alpha1::Worker MakeWorker(const std::string& id, const std::string& host, int cores,
                                   int gpus) {
  v1alpha1::Worker worker;
  worker.set_name("workers/" + id);
  worker.set_host(host);
  worker.set_state(v1alpha1::Worker::READY);
  for (int slot = 0; slot < cores + gpus; ++slot) {
    auto* device = worker.add_devices();
    device->set_slot(slot);
    device->set_kind(slot < cores ? v1alpha1::DEVICE_CPU : v1alpha1::DEVICE_CUDA);
    device->set_description(slot < cores ? "cpu core" : "GPU");
    device->set_memory_bytes((slot < cores ? 4 : 80) * kGiB);
  }
  return worker;
}

// One rank on each of `workers`, in slots from `first_slot`.
inline v1alpha1::DryRun MakeRun(v1alpha1::Device device, const std::vector<std::string>& workers,
                                int first_slot, int64_t bytes) {
  v1alpha1::DryRun run;
  run.mutable_job()->mutable_spec()->set_device(device);
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    auto* placement = run.mutable_job()->add_placement();
    placement->set_rank(static_cast<int>(rank));
    placement->set_worker("workers/" + workers[rank]);
    placement->set_slot(first_slot + static_cast<int>(rank));
    if (rank > 1) continue;  // the others are as the second
    auto* planned = run.mutable_plan()->add_ranks();
    planned->set_rank(static_cast<int>(rank));
    planned->set_count(rank == 0 ? 1 : static_cast<int>(workers.size()) - 1);
    planned->set_bytes(bytes);
    planned->set_operations(rank == 0 ? 7 : 6);
    auto* arena = planned->add_arenas();
    arena->set_name("activation");
    arena->set_bytes(bytes);
  }
  return run;
}

// A job of `blocks` blocks of `tp_size` ranks that has no placement.
inline v1alpha1::DryRun MakeWaiting(v1alpha1::Device device, int tp_size, int blocks,
                                    int64_t bytes) {
  v1alpha1::DryRun run;
  v1alpha1::JobSpec* spec = run.mutable_job()->mutable_spec();
  spec->set_device(device);
  spec->mutable_parallelism()->set_tp_size(tp_size);
  spec->mutable_parallelism()->set_dp_size(blocks);
  auto* planned = run.mutable_plan()->add_ranks();
  planned->set_count(tp_size * blocks);
  planned->set_bytes(bytes);
  return run;
}

}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the memory that the ranks of a new job need is there: the plan of `stretto-planner`
// against what the workers have told, before the job is created.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/client/invocation.h"
#include "stretto/v1alpha1/plan.pb.h"

namespace stretto::cli {

// The memory that a place offers, and the memory that ranks need there.
struct Room {
  std::string place;  // "node a", "worker a, slot 2 (NVIDIA H200 (GPU 0))"
  int64_t asked = 0;
  int64_t offered = 0;  // 0: not known
  bool fits() const { return offered == 0 || asked <= offered; }
};

// Returns the places of the ranks, by name. Of a job that would wait, which has none, it returns
// what READY workers have, whether or not it is free: all together, and the largest place for the
// ranks that must share one. Empty without a plan, and without a READY worker. Pure.
std::vector<Room> RoomsOf(const v1alpha1::DryRun& run,
                          const std::vector<v1alpha1::Worker>& workers);

// Returns true if all ranks fit their places, and false if some cannot fit. Nullopt if part of it
// is not known, or if it depends on the places that the job would wait for. Pure.
std::optional<bool> Fits(const v1alpha1::DryRun& run, const std::vector<v1alpha1::Worker>& workers);

// Returns why memory was not compared, or not in all places; empty if it was. Pure.
std::string WhyNotCompared(const v1alpha1::DryRun& run,
                           const std::vector<v1alpha1::Worker>& workers);

// Returns the device of a slot; null if it is not known. `worker` is "workers/ID". Pure.
const v1alpha1::WorkerDevice* FindDevice(const std::vector<v1alpha1::Worker>& workers,
                                         const std::string& worker, int slot);

// Sets all fields of a run, whose job CreateJob returned for validate_only, by the program
// `planner` and the workers that the coordinator knows, which it returns. What does not answer is
// left out. Errors: Cancelled (interrupted).
absl::StatusOr<std::vector<v1alpha1::Worker>> LookAtMemory(const Invocation& invocation,
                                                           const std::string& planner,
                                                           v1alpha1::DryRun* run);

// Tells the user why memory was not compared, if it was not.
void ReportNotCompared(const Invocation& invocation, const v1alpha1::DryRun& run);

}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cluster at a glance, for `stretto top`. Pure.

#include <string>
#include <vector>

#include "proto/document/document.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct ClusterView {
  std::vector<v1alpha1::Worker> workers;  // by name
  std::vector<v1alpha1::Job> active;      // that hold slots, newest first
  std::vector<v1alpha1::Job> waiting;     // newest first
  bool more_waiting = false;              // than these
};

// The figures of a job. NaN: not known yet.
struct JobSpeed {
  double steps_per_second;  // over the last 10 steps
  double exposed_share;     // of the time of rank 0 since the first step
};
JobSpeed SpeedOf(const v1alpha1::Job& job);

// Counts, then a row per job and a row per worker.
std::string TopText(const ClusterView& view);

// The same as data. What is not known is null.
Document TopDocument(const ClusterView& view);

}  // namespace stretto::cli

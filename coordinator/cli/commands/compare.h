// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job compare`: compares runs side by side by the figures of docs/BENCHMARKS.md.

#include <string>
#include <vector>

#include "coordinator/cli/client/invocation.h"
#include "coordinator/cli/commands/ideal.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// The figures of one job, measured from its own step reports. They leave out the first step, which
// warms caches. hidden_saved and t_ideal_step are NaN without a profile.
struct RunFigures {
  std::string name, schedule, layout, options, link, parity;
  int64_t steps = 0;
  double first_loss = 0, last_loss = 0;
  double held_out_loss = 0;  // the last; NaN: none
  double submit_to_first_operation_seconds = 0, submit_to_first_step_seconds = 0;
  double tokens_per_second = 0, step_seconds_p50 = 0;
  double t_comp = 0, t_comm = 0, t_ideal_step = 0;  // of its own profile
  IdealStep ideal;                                  // of all runs of its model, link and layout
  std::string disturbance;                          // of its own profile; empty: none
  double hidden_interval = 0;                       // |C and M| / |M|
  double hidden_saved = 0;                          // (t_serial - p50) / t_comm
  bool verified_parity = false;
  v1alpha1::Ledger ledger;  // per step: means over all of them
};

// Pure. `steps` are those of rank 0, in order. `ideal` is as if there were no other run.
RunFigures FiguresOf(const v1alpha1::Job& job, const std::vector<v1alpha1::StepReport>& steps);

// A table with a column per run: figures first, then the ledger's seconds per step by part and
// phase.
std::string CompareTable(const std::vector<RunFigures>& runs);
// A JSON object with a list "runs".
Document CompareDocument(const std::vector<RunFigures>& runs);

ExitCode CompareJobs(const Invocation& invocation, const std::vector<std::string>& names);

}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Recorded steps made by hand.

#include <string>
#include <vector>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct Operation {
  int lane;
  std::string kind, label, phase, group;
  std::vector<int> waits;
};

// Two layers' worth of two slices on a compute and a communication lane.
inline v1alpha1::TraceProgram MakeProgram(const std::string& machine = "box") {
  v1alpha1::TraceProgram program;
  program.set_machine(machine);
  program.add_groups("tp");
  program.add_lanes("compute");
  program.add_lanes("comm.tp");
  const std::vector<Operation> operations = {
      {0, "gemm", "L0.fc2 fwd mb0 s0", "forward", "", {}},
      {1, "all_reduce", "L0.fc2 fwd mb0 s0", "forward", "tp", {0}},
      {0, "gemm", "L0.fc2 fwd mb0 s1", "forward", "", {}},
      {1, "all_reduce", "L0.fc2 fwd mb0 s1", "forward", "tp", {2}},
      {0, "gemm_dgrad", "L0.fc2 bwd mb0 s0", "backward", "", {1, 3}},
      {1, "all_reduce", "L0.fc2 bwd mb0 s0", "backward", "tp", {4}},
      {0, "gemm_wgrad", "L0.fc2 bwd mb0 s0", "backward", "", {}},
      {0, "adamw", "fc2 \"w\" opt", "optimizer", "", {5}},
  };
  for (const Operation& made : operations) {
    v1alpha1::TraceOperation* op = program.add_operations();
    op->set_lane(made.lane);
    op->set_kind(made.kind);
    op->set_label(made.label);
    op->set_phase(made.phase);
    op->set_group(made.group);
    for (int wait : made.waits) op->add_waits(wait);
  }
  program.set_operation_count(program.operations_size());
  return program;
}

inline void AddInterval(int64_t begin, int64_t end, v1alpha1::TraceIntervals* intervals) {
  intervals->add_begin_nanoseconds(begin);
  intervals->add_duration_nanoseconds(end - begin);
}

inline void AddEntry(v1alpha1::Ledger::Part part, const std::string& group,
                     const std::string& phase, double seconds, v1alpha1::Ledger* ledger) {
  v1alpha1::Ledger::Entry* entry = ledger->add_entries();
  entry->set_part(part);
  entry->set_group(group);
  entry->set_phase(phase);
  entry->set_seconds(seconds);
}

// A step of 100 ms of MakeProgram, its ledger worked out by hand.
inline v1alpha1::TraceStep MakeStep(int64_t number, int64_t begin_nanoseconds = 5'000'000'000) {
  constexpr int64_t kMs = 1'000'000;
  v1alpha1::TraceStep step;
  step.set_step(number);
  step.set_begin_nanoseconds(begin_nanoseconds);
  step.set_end_nanoseconds(begin_nanoseconds + 100 * kMs);
  step.mutable_begin_time()->set_seconds(1'700'000'010 + number);
  AddInterval(0, 2 * kMs, step.mutable_data_waits());
  AddInterval(90 * kMs, 98 * kMs, step.mutable_checkpoint_waits());
  const std::vector<std::pair<int64_t, int64_t>> intervals = {
      {2, 12}, {12, 20}, {12, 22}, {22, 30}, {30, 50}, {50, 70}, {50, 65}, {70, 85}};
  for (const auto& [begin, end] : intervals) {
    AddInterval(begin * kMs, end * kMs, step.mutable_operations());
  }
  v1alpha1::StepReport* report = step.mutable_report();
  report->set_step(number);
  report->set_loss(2.5);
  report->set_tokens(1024);
  report->set_wall_seconds(0.1);
  v1alpha1::Ledger* ledger = report->mutable_ledger();
  using v1alpha1::Ledger;
  AddEntry(Ledger::COMPUTE_HIDING, "tp", "forward", 0.008, ledger);
  AddEntry(Ledger::COMPUTE_HIDING, "tp", "backward", 0.015, ledger);
  AddEntry(Ledger::COMPUTE_ALONE, "", "forward", 0.012, ledger);
  AddEntry(Ledger::COMPUTE_ALONE, "", "backward", 0.020, ledger);
  AddEntry(Ledger::COMPUTE_ALONE, "", "optimizer", 0.015, ledger);
  AddEntry(Ledger::EXPOSED, "tp", "forward", 0.008, ledger);
  AddEntry(Ledger::EXPOSED, "tp", "backward", 0.005, ledger);
  AddEntry(Ledger::DATA_WAIT, "", "", 0.002, ledger);
  AddEntry(Ledger::CHECKPOINT_WAIT, "", "", 0.008, ledger);
  AddEntry(Ledger::IDLE, "", "", 0.007, ledger);
  ledger->set_communication_seconds(0.036);
  ledger->set_hidden_seconds(0.023);
  ledger->set_wall_seconds(0.1);
  ledger->set_steps(1);
  return step;
}

inline v1alpha1::Job MakeTracedJob() {
  v1alpha1::Job job;
  job.set_name("jobs/gpt");
  job.mutable_spec()->mutable_schedule()->set_name("domino_row");
  job.mutable_create_time()->set_seconds(1'700'000'000);
  job.mutable_progress()->set_steps(3);
  return job;
}

}  // namespace stretto::cli

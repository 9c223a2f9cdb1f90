// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/trace_recorder.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/strip.h"
#include "proto/base/files.h"
#include "worker/engine/program/text.h"

namespace stretto::trainer {
namespace {

using google::protobuf::util::TimeUtil;
using v1alpha1::TraceIntervals;
using v1alpha1::TraceProgram;
using v1alpha1::TraceRecord;

// Limits that keep a record near 64 KiB: an interval takes at most 20 bytes, an operation of the
// program about 100.
constexpr size_t kIntervalsPerRecord = 3000;
constexpr int kOperationsPerRecord = 500;

// Returns an id that is equal for all processes that share this machine's monotonic clock; empty
// when unknown.
std::string MachineId() {
  absl::StatusOr<std::string> id = ReadFile("/proc/sys/kernel/random/boot_id");
  return id.ok() ? std::string(absl::StripSuffix(*id, "\n")) : "";
}

void AddOperation(const Program& program, const Op& op, TraceProgram* out) {
  v1alpha1::TraceOperation* operation = out->add_operations();
  operation->set_lane(op.lane.value());
  operation->set_kind(InfoOf(op.kind).name);
  operation->set_label(PrintTag(op.tag));
  operation->set_phase(LongNameOf(op.tag.phase));
  if (op.group >= 0) operation->set_group(program.groups[op.group].axis());
  for (OpId wait : op.waits) operation->add_waits(wait.value());
}

std::vector<TraceRecord> Describe(const Program& program) {
  std::vector<TraceRecord> records(1);
  TraceProgram* head = records[0].mutable_program();
  head->set_machine(MachineId());
  for (const Group& group : program.groups) {
    const bool known = absl::c_linear_search(head->groups(), group.axis());
    if (!known) head->add_groups(group.axis());
  }
  for (const Lane& lane : program.lanes) head->add_lanes(lane.name);
  head->set_operation_count(static_cast<int32_t>(program.ops.size()));
  for (OpId op : program.ops.ids()) {
    if (op > 0 && op.value() % kOperationsPerRecord == 0) records.emplace_back();
    AddOperation(program, program.ops[op], records.back().mutable_program());
  }
  return records;
}

void AddInterval(Interval interval, int64_t origin, TraceIntervals* out) {
  out->add_begin_nanoseconds(interval.begin - origin);
  out->add_duration_nanoseconds(interval.end - interval.begin);
}

}  // namespace

TraceRecorder::TraceRecorder(const std::string& run_folder, const Program& program) {
  absl::StatusOr<TraceLog> log = TraceLog::Create(run_folder, Describe(program));
  if (log.ok()) {
    log_ = *std::move(log);
  } else {
    Warn(log.status());
  }
}

void TraceRecorder::Record(const v1alpha1::StepReport& report,
                           absl::Span<const Interval> operations, const HostWaits& waits,
                           Interval step, absl::Time begin) {
  if (!log_) return;
  // The first record of a step has its report and waits; the others only continue its intervals.
  for (size_t first = 0; first == 0 || first < operations.size(); first += kIntervalsPerRecord) {
    v1alpha1::TraceStep* out = record_.mutable_step();
    out->Clear();
    out->set_step(report.step());
    if (first == 0) {
      *out->mutable_report() = report;
      out->set_begin_nanoseconds(step.begin);
      out->set_end_nanoseconds(step.end);
      *out->mutable_begin_time() = TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(begin));
      for (Interval wait : waits.data) AddInterval(wait, step.begin, out->mutable_data_waits());
      for (Interval wait : waits.checkpoint) {
        AddInterval(wait, step.begin, out->mutable_checkpoint_waits());
      }
      for (Interval wait : waits.evaluation)
        AddInterval(wait, step.begin, out->mutable_evaluations());
    }
    for (Interval interval : operations.subspan(first, kIntervalsPerRecord)) {
      AddInterval(interval, step.begin, out->mutable_operations());
    }
    log_->Add(record_);
  }
  if (const absl::Status status = log_->Commit(); !status.ok()) Warn(status);
}

void TraceRecorder::Warn(const absl::Status& status) {
  if (std::exchange(warned_, true)) return;
  spdlog::warn("steps are missing from the trace: {}", status.ToString());
}

}  // namespace stretto::trainer

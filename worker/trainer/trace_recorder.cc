// SPDX-License-Identifier: Apache-2.0

// Describes the program once, and appends the intervals of each step to the log, both in records of
// about 64 KiB at most that a reader merges. What cannot be written is missing from the trace, and
// training continues.

#include "worker/trainer/trace_recorder.h"

#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/strip.h"
#include "proto/base/files.h"
#include "worker/engine/cost/table.h"
#include "worker/engine/program/text.h"

namespace stretto::trainer {
namespace {

using google::protobuf::util::TimeUtil;
using v1alpha1::TraceIntervals;
using v1alpha1::TraceProgram;
using v1alpha1::TraceRecord;

// Limits that keep a record near 64 KiB: an interval takes at most 20 bytes.
constexpr size_t kIntervalsPerRecord = 3000;
constexpr size_t kProgramBytesPerRecord = 50'000;

// Returns an id that is equal for all processes that share this machine's monotonic clock; empty
// when unknown.
std::string MachineId() {
  absl::StatusOr<std::string> id = ReadFile("/proc/sys/kernel/random/boot_id");
  return id.ok() ? std::string(absl::StripSuffix(*id, "\n")) : "";
}

// The number of each shape that was added.
using Shapes = std::unordered_map<std::string, int32_t>;

// Adds an operation, and its shape if that is new. Returns their bytes.
size_t AddOperation(const Program& program, const Op& op, Shapes* shapes, TraceProgram* out) {
  v1alpha1::TraceOperation* operation = out->add_operations();
  operation->set_lane(op.lane.value());
  operation->set_kind(InfoOf(op.kind).name);
  operation->set_label(PrintTag(op.tag));
  operation->set_phase(LongNameOf(op.tag.phase));
  if (op.group >= 0) operation->set_group(program.groups[op.group].axis());
  for (OpId wait : op.waits) operation->add_waits(wait.value());
  const auto [shape, is_new] =
      shapes->try_emplace(OperationKey(program, op), static_cast<int32_t>(shapes->size()));
  operation->set_shape(shape->second);
  if (is_new) out->add_shapes(shape->first);
  return operation->ByteSizeLong() + (is_new ? shape->first.size() : 0);
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
  Shapes shapes;
  size_t bytes = 0;  // of the operations in the last record
  for (const Op& op : program.ops) {
    if (bytes > kProgramBytesPerRecord) {
      records.emplace_back();
      bytes = 0;
    }
    bytes += AddOperation(program, op, &shapes, records.back().mutable_program());
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

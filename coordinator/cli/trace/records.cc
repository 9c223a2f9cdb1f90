// SPDX-License-Identifier: Apache-2.0

// Assembles programs and steps from records that may be split, and checks that every interval
// belongs to an operation of the program. TimeAxis places the steps of several ranks on one axis.

#include "coordinator/cli/trace/records.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

using v1alpha1::TraceIntervals;
using v1alpha1::TraceOperation;
using v1alpha1::TraceProgram;
using v1alpha1::TraceStep;

absl::Status Wrong(int rank, absl::string_view what, absl::string_view found,
                   absl::string_view expected) {
  return absl::DataLossError(
      absl::StrCat("trace of rank ", rank, ": found ", what, " ", found, ", expected ", expected));
}

// Nanoseconds. Times beyond these are none of a run, and sums of them would overflow.
constexpr int64_t kLongestStep = int64_t{1} << 53;  // 104 days
constexpr int64_t kLongestUp = int64_t{1} << 60;    // 36 years since a machine has started
constexpr int64_t kLastSecond = (int64_t{1} << 62) / 1'000'000'000;  // of the wall clock, in 2116

absl::Status CheckProgram(int rank, const TraceProgram& program) {
  const int lanes = program.lanes_size(), operations = program.operations_size();
  const int shapes = program.shapes_size();
  for (const TraceOperation& op : program.operations()) {
    if (op.lane() < 0 || op.lane() >= lanes) {
      return Wrong(rank, "lane", absl::StrCat(op.lane()), absl::StrCat("fewer than ", lanes));
    }
    if (shapes > 0 && (op.shape() < 0 || op.shape() >= shapes)) {
      return Wrong(rank, "shape", absl::StrCat(op.shape()), absl::StrCat("fewer than ", shapes));
    }
    if (PhaseIndex(op.phase()) < 0) {
      return Wrong(rank, "phase", op.phase(), "one of a step program");
    }
    if (!op.group().empty() && std::find(program.groups().begin(), program.groups().end(),
                                         op.group()) == program.groups().end()) {
      return Wrong(rank, "group", op.group(), "one of the program's");
    }
    for (const int wait : op.waits()) {
      if (wait >= 0 && wait < operations) continue;
      return Wrong(rank, "wait", absl::StrCat(wait), absl::StrCat("fewer than ", operations));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckIntervals(int rank, const TraceIntervals& intervals) {
  const int begins = intervals.begin_nanoseconds_size();
  if (intervals.duration_nanoseconds_size() != begins) {
    return Wrong(rank, "durations", absl::StrCat(intervals.duration_nanoseconds_size()),
                 absl::StrCat(begins));
  }
  for (const int64_t duration : intervals.duration_nanoseconds()) {
    if (duration >= 0 && duration <= kLongestStep) continue;
    return Wrong(rank, "duration", absl::StrCat(duration), absl::StrCat("0 to ", kLongestStep));
  }
  for (const int64_t begin : intervals.begin_nanoseconds()) {
    if (begin >= -kLongestStep && begin <= kLongestStep) continue;
    return Wrong(rank, "begin", absl::StrCat(begin),
                 absl::StrCat("at most ", kLongestStep, " from that of its step"));
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(int rank, const TraceStep& step) {
  const int64_t begin = step.begin_nanoseconds(), end = step.end_nanoseconds();
  if (begin < 0 || begin > kLongestUp) {
    return Wrong(rank, "begin of a step", absl::StrCat(begin), absl::StrCat("0 to ", kLongestUp));
  }
  if (end < begin || end - begin > kLongestStep) {
    return Wrong(rank, "end of a step", absl::StrCat(end),
                 absl::StrCat("at most ", kLongestStep, " after ", begin));
  }
  const int64_t seconds = step.begin_time().seconds();
  if (seconds >= 0 && seconds < kLastSecond) return absl::OkStatus();
  return Wrong(rank, "second", absl::StrCat(seconds), absl::StrCat("0 to ", kLastSecond));
}

}  // namespace

Span SpanAt(const TraceIntervals& intervals, int index) {
  const int64_t begin = intervals.begin_nanoseconds(index);
  return {begin, begin + intervals.duration_nanoseconds(index)};
}

int PhaseIndex(const std::string& name) {
  const auto* const found = std::find(std::begin(kPhaseNames), std::end(kPhaseNames), name);
  return found == std::end(kPhaseNames) ? -1 : found - kPhaseNames;
}

absl::Status TraceAssembler::Add(const v1alpha1::StreamJobTraceResponse& response) {
  if (response.rank() != rank_) {
    DropStep();
    rank_ = response.rank();
    program_.Clear();
    has_program_ = false;
  }
  const v1alpha1::TraceRecord& record = response.record();
  if (record.has_program()) return AddProgram(record.program());
  if (record.has_step()) return AddStep(record.step());
  DropStep();
  if (!record.warning().empty()) {
    handlers_.on_warning(absl::StrCat("rank ", rank_, ": ", record.warning()));
  }
  return absl::OkStatus();
}

absl::Status TraceAssembler::AddProgram(const TraceProgram& part) {
  program_.MergeFrom(part);
  if (program_.operations_size() < program_.operation_count()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckProgram(rank_, program_));
  has_program_ = true;
  handlers_.on_program(rank_, program_);
  return absl::OkStatus();
}

absl::Status TraceAssembler::AddStep(const TraceStep& part) {
  if (part.step() != step_.step()) {
    DropStep();
    step_ = part;
  } else {
    step_.MergeFrom(part);
  }
  const int operations = program_.operations_size();
  if (operations != program_.operation_count()) {
    return Wrong(rank_, "operations", absl::StrCat(operations),
                 absl::StrCat(program_.operation_count()));
  }
  if (!has_program_) {
    return Wrong(rank_, "step", absl::StrCat(part.step()), "the program of the rank before it");
  }
  for (const TraceIntervals* intervals : {&step_.data_waits(), &step_.checkpoint_waits(),
                                          &step_.evaluations(), &step_.operations()}) {
    RETURN_IF_ERROR(CheckIntervals(rank_, *intervals));
  }
  const int intervals = step_.operations().begin_nanoseconds_size();
  if (intervals < operations) return absl::OkStatus();
  if (intervals > operations) {
    return Wrong(rank_, absl::StrCat("step ", step_.step(), " with intervals"),
                 absl::StrCat(intervals), absl::StrCat(operations));
  }
  RETURN_IF_ERROR(CheckTimes(rank_, step_));
  handlers_.on_step(rank_, program_, step_);
  step_.Clear();
  return absl::OkStatus();
}

void TraceAssembler::DropStep() {
  if (step_.step() == 0) return;
  handlers_.on_warning(
      absl::StrCat("rank ", rank_, ": step ", step_.step(), " is incomplete and was left out"));
  step_.Clear();
}

void TraceAssembler::Finish() { DropStep(); }

int64_t TimeAxis::BeginOf(int rank, const TraceProgram& program, const TraceStep& step) {
  const std::string machine =
      program.machine().empty() ? absl::StrCat("rank ", rank) : program.machine();
  const int64_t wall = step.begin_time().seconds() * 1'000'000'000 + step.begin_time().nanos();
  const auto offset =
      offsets_.emplace(machine, wall - origin_ - step.begin_nanoseconds()).first->second;
  return step.begin_nanoseconds() + offset;
}

}  // namespace stretto::cli

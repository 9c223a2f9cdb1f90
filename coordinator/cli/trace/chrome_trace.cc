// SPDX-License-Identifier: Apache-2.0

// Writes one JSON event at a time to the stream. A lane whose operations overlap in time gets as
// many tracks as it needs, because slices of one track must not overlap.

#include "coordinator/cli/trace/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/trace/anatomy.h"
#include "nlohmann/json.hpp"

namespace stretto::cli {
namespace {

using v1alpha1::Ledger;
using v1alpha1::TraceIntervals;
using v1alpha1::TraceOperation;
using v1alpha1::TraceProgram;
using v1alpha1::TraceStep;

constexpr int kStepTrack = 1, kLedgerTrack = 2;
// The tracks of lane i start at kLaneTrack * (i + 1).
constexpr int kLaneTrack = 100;

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Prints microseconds exactly.
std::string Micros(int64_t nanoseconds) {
  const char* sign = nanoseconds < 0 ? "-" : "";
  const uint64_t value = static_cast<uint64_t>(std::abs(nanoseconds));
  return absl::StrFormat("%s%d.%03d", sign, value / 1000, value % 1000);
}

// JSON has no NaN.
std::string Number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null";
}

std::string SliceAt(int64_t begin, int64_t length) {
  return absl::StrCat("\"ts\":", Micros(begin), ",\"dur\":", Micros(length));
}

}  // namespace

ChromeTraceWriter::ChromeTraceWriter(std::ostream& out) : out_(out) {
  out_ << "{\"traceEvents\":[";
}

void ChromeTraceWriter::Event(absl::string_view text) {
  out_ << (std::exchange(first_event_, false) ? "\n{" : ",\n{") << text << ",\"pid\":" << rank_
       << "}";
}

void ChromeTraceWriter::Metadata(absl::string_view what, int tid, absl::string_view value_json) {
  const char* key =
      what == "thread_sort_index" || what == "process_sort_index" ? "sort_index" : "name";
  Event(absl::StrCat("\"ph\":\"M\",\"name\":\"", what, "\",\"tid\":", tid, ",\"args\":{\"", key,
                     "\":", value_json, "}"));
}

void ChromeTraceWriter::Track(int tid, const std::string& name) {
  Metadata("thread_name", tid, Quoted(name));
  Metadata("thread_sort_index", tid, absl::StrCat(tid));
}

void ChromeTraceWriter::Counter(absl::string_view name, int64_t time, double value) {
  if (!std::isfinite(value)) return;
  Event(absl::StrCat("\"ph\":\"C\",\"name\":\"", name, "\",\"ts\":", Micros(time),
                     ",\"args\":{\"value\":", Number(value), "}"));
}

void ChromeTraceWriter::StartRank(int rank, const TraceProgram& program) {
  rank_ = rank;
  if (first_rank_ < 0) first_rank_ = rank;
  exposed_ = 0;
  program_.clear();
  lanes_.clear();
  for (const TraceOperation& op : program.operations()) {
    Operation operation;
    operation.lane = op.lane();
    const std::string shape = program.shapes().empty()
                                  ? ""
                                  : absl::StrCat(",\"shape\":", Quoted(program.shapes(op.shape())));
    operation.head =
        absl::StrCat("\"ph\":\"X\",\"name\":", Quoted(op.kind() + " " + op.label()),
                     ",\"cat\":", Quoted(op.phase()), ",\"args\":{\"operation\":", program_.size(),
                     ",\"waits\":[", absl::StrJoin(op.waits(), ","), "]", shape, "},");
    program_.push_back(std::move(operation));
  }
  for (const std::string& name : program.lanes()) lanes_.push_back({name, {}});
  Metadata("process_name", 0, Quoted(absl::StrCat("rank ", rank)));
  Metadata("process_sort_index", 0, absl::StrCat(rank));
  Track(kStepTrack, "step");
  Track(kLedgerTrack, "ledger");
}

int ChromeTraceWriter::TrackOf(int lane, Span span) {
  std::vector<Span>& last = lanes_[lane].last;
  const auto free = std::find_if(last.begin(), last.end(), [&](const Span& slice) {
    return slice.end <= span.begin || (slice.begin == span.begin && slice.end == span.end);
  });
  const int index = free - last.begin();
  const int tid = kLaneTrack * (lane + 1) + index;
  if (free != last.end()) {
    *free = span;
    return tid;
  }
  last.push_back(span);
  Track(tid, lanes_[lane].name + (index == 0 ? "" : " (overlapping)"));
  return tid;
}

void ChromeTraceWriter::AddStep(const TraceProgram& program, const TraceStep& step, int64_t begin) {
  AddHost(step, begin);
  AddLedger(program, step, begin);
  AddOperations(program, step, begin);
  AddInFlight(program, step, begin);
}

void ChromeTraceWriter::AddHost(const TraceStep& step, int64_t begin) {
  const v1alpha1::StepReport& report = step.report();
  const int64_t length = step.end_nanoseconds() - step.begin_nanoseconds();
  const Ledger& ledger = report.ledger();
  const double overlap = ledger.hidden_seconds() / ledger.communication_seconds();
  Event(absl::StrCat("\"ph\":\"X\",\"name\":\"step ", step.step(),
                     "\",\"cat\":\"step\",\"tid\":", kStepTrack, ",", SliceAt(begin, length),
                     ",\"args\":{\"loss\":", Number(report.loss()), ",\"tokens\":", report.tokens(),
                     ",\"gradient_norm\":", Number(report.grad_norm()), ",\"wall_seconds\":",
                     Number(report.wall_seconds()), ",\"overlap_ratio\":", Number(overlap), "}"));
  for (const auto& [waits, name] : {std::pair{&step.data_waits(), "data wait"},
                                    std::pair{&step.checkpoint_waits(), "checkpoint wait"},
                                    std::pair{&step.evaluations(), "evaluation"}}) {
    for (int i = 0; i < waits->begin_nanoseconds_size(); ++i) {
      const Span span = SpanAt(*waits, i);
      const int64_t from = std::max<int64_t>(span.begin, 0), to = std::min(span.end, length);
      if (from >= to) continue;
      Event(absl::StrCat("\"ph\":\"X\",\"name\":\"", name, "\",\"cat\":\"wait\",\"tid\":",
                         kStepTrack, ",", SliceAt(begin + from, to - from)));
    }
  }
  if (rank_ != first_rank_) return;
  Counter("loss", begin + length, report.loss());
  if (report.has_evaluation()) {
    Counter("held-out loss", begin + length, report.evaluation().loss());
  }
  if (report.wall_seconds() > 0) {
    Counter("tokens per second", begin + length,
            static_cast<double>(report.tokens()) / report.wall_seconds());
  }
}

void ChromeTraceWriter::AddLedger(const TraceProgram& program, const TraceStep& step,
                                  int64_t begin) {
  for (const LedgerSegment& segment : Anatomy(program, step)) {
    Event(absl::StrCat("\"ph\":\"X\",\"name\":", Quoted(SegmentName(segment)),
                       ",\"cat\":\"ledger\",\"tid\":", kLedgerTrack, ",",
                       SliceAt(begin + segment.span.begin, segment.span.length())));
    if (segment.part != Ledger::EXPOSED) continue;
    Counter("exposed ms", begin + segment.span.begin, static_cast<double>(exposed_) * 1e-6);
    exposed_ += segment.span.length();
    Counter("exposed ms", begin + segment.span.end, static_cast<double>(exposed_) * 1e-6);
  }
}

void ChromeTraceWriter::AddOperations(const TraceProgram& program, const TraceStep& step,
                                      int64_t begin) {
  // Slices of a track must come in order of their begin; ties in program order.
  std::vector<int> order(program_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return step.operations().begin_nanoseconds(a) < step.operations().begin_nanoseconds(b);
  });
  std::vector<int> tracks(order.size());
  for (const int i : order) {
    const Operation& op = program_[i];
    Span span = SpanAt(step.operations(), i);
    span = {span.begin + begin, span.end + begin};
    const int tid = tracks[i] = TrackOf(op.lane, span);
    Event(absl::StrCat(op.head, "\"tid\":", tid, ",", SliceAt(span.begin, span.length())));
    ++operations_;
  }
  for (int i = 0; i < std::ssize(order); ++i) {
    const Span to = SpanAt(step.operations(), i);
    for (const int wait : program.operations(i).waits()) {
      const Span from = SpanAt(step.operations(), wait);
      // An arrow belongs to the slice in which it begins, so it starts a nanosecond before the end.
      const int64_t leave = std::max(from.begin, std::min(from.end - 1, to.begin));
      if (leave > to.begin) continue;  // the clocks of a device and its host disagree
      const std::string flow = absl::StrCat("\"name\":\"wait\",\"cat\":\"wait\",\"id\":", ++flows_);
      Event(absl::StrCat("\"ph\":\"s\",", flow, ",\"tid\":", tracks[wait],
                         ",\"ts\":", Micros(begin + leave)));
      Event(absl::StrCat("\"ph\":\"f\",\"bp\":\"e\",", flow, ",\"tid\":", tracks[i],
                         ",\"ts\":", Micros(begin + to.begin)));
    }
  }
}

void ChromeTraceWriter::AddInFlight(const TraceProgram& program, const TraceStep& step,
                                    int64_t begin) {
  std::map<int64_t, int> changes;
  for (int i = 0; i < program.operations_size(); ++i) {
    const v1alpha1::TraceOperation& op = program.operations(i);
    if (op.group().empty() || IsReceive(op)) continue;
    const Span span = SpanAt(step.operations(), i);
    ++changes[span.begin];
    --changes[span.end];
  }
  int count = 0;
  for (const auto& [time, change] : changes) {
    if (change == 0) continue;
    count += change;
    Counter("collectives in flight", begin + time, count);
  }
}

void ChromeTraceWriter::Finish(const v1alpha1::Job& job, int machines) {
  const std::string clocks =
      machines <= 1 ? "all ranks share one monotonic clock"
                    : absl::StrCat("ranks of one machine share its monotonic clock; ", machines,
                                   " machines are aligned by their wall clocks");
  out_ << "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"job\":" << Quoted(job.name())
       << ",\"schedule\":" << Quoted(job.spec().schedule().name())
       << ",\"time_zero\":\"creation of the job\",\"clocks\":" << Quoted(clocks) << "}}\n";
}

}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0

// A sweep over the edges of all recorded intervals, like the trainer's ledger: between two edges
// the set of open intervals is constant, and its first match decides the account. Adjacent spans
// with the same account are joined.

#include "coordinator/cli/trace/anatomy.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace stretto::cli {
namespace {

using v1alpha1::Ledger;
using v1alpha1::TraceIntervals;
using v1alpha1::TraceOperation;
using v1alpha1::TraceProgram;
using v1alpha1::TraceStep;

enum class Activity { kCompute, kCommunicate, kReceive, kData, kCheckpoint, kEvaluation };
// An open activity; group and phase are -1 where they do not apply. Ordered by the ledger's
// preference.
using Doing = std::tuple<Activity, int, int>;

struct Edge {
  int64_t time;
  int delta;
  Doing doing;
};

int GroupIndex(const TraceProgram& program, const std::string& name) {
  const auto& groups = program.groups();
  return std::find(groups.begin(), groups.end(), name) - groups.begin();
}

std::vector<Edge> EdgesOf(const TraceProgram& program, const TraceStep& step) {
  std::vector<Edge> edges;
  const int64_t length = step.end_nanoseconds() - step.begin_nanoseconds();
  const auto add = [&](Span span, const Doing& doing) {
    const int64_t begin = std::max<int64_t>(span.begin, 0), end = std::min(span.end, length);
    if (begin >= end) return;
    edges.push_back({begin, +1, doing});
    edges.push_back({end, -1, doing});
  };
  for (int i = 0; i < program.operations_size(); ++i) {
    const TraceOperation& op = program.operations(i);
    const int phase = PhaseIndex(op.phase());
    const Span span = SpanAt(step.operations(), i);
    if (op.group().empty()) {
      add(span, {Activity::kCompute, -1, phase});
    } else if (IsReceive(op)) {
      add(span, {Activity::kReceive, -1, phase});
    } else {
      add(span, {Activity::kCommunicate, GroupIndex(program, op.group()), phase});
    }
  }
  for (const auto& [waits, activity] : {std::pair{&step.data_waits(), Activity::kData},
                                        std::pair{&step.checkpoint_waits(), Activity::kCheckpoint},
                                        std::pair{&step.evaluations(), Activity::kEvaluation}}) {
    for (int i = 0; i < waits->begin_nanoseconds_size(); ++i) {
      add(SpanAt(*waits, i), {activity, -1, -1});
    }
  }
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.time < b.time; });
  return edges;
}

// The first match decides: computation (which hides concurrent communication), communication,
// receives, waits.
LedgerSegment Classify(const TraceProgram& program, const std::map<Doing, int>& open) {
  LedgerSegment segment;
  if (open.empty()) return segment;
  const auto [activity, group, phase] = open.begin()->first;
  if (phase >= 0) segment.phase = kPhaseNames[phase];
  switch (activity) {
    case Activity::kCompute: {
      const auto communication = open.lower_bound({Activity::kCommunicate, -1, -1});
      const bool hides = communication != open.end() &&
                         std::get<0>(communication->first) == Activity::kCommunicate;
      segment.part = hides ? Ledger::COMPUTE_HIDING : Ledger::COMPUTE_ALONE;
      if (hides) segment.group = program.groups(std::get<1>(communication->first));
      break;
    }
    case Activity::kCommunicate:
      segment.part = Ledger::EXPOSED;
      segment.group = program.groups(group);
      break;
    case Activity::kReceive:
      segment.part = Ledger::PIPELINE_WAIT;
      break;
    case Activity::kData:
      segment.part = Ledger::DATA_WAIT;
      break;
    case Activity::kCheckpoint:
      segment.part = Ledger::CHECKPOINT_WAIT;
      break;
    case Activity::kEvaluation:
      segment.part = Ledger::EVALUATION;
      break;
  }
  return segment;
}

bool SameAccount(const LedgerSegment& a, const LedgerSegment& b) {
  return std::tie(a.part, a.group, a.phase) == std::tie(b.part, b.group, b.phase);
}

}  // namespace

bool IsReceive(const TraceOperation& op) { return op.kind() == "recv"; }

std::vector<LedgerSegment> Anatomy(const TraceProgram& program, const TraceStep& step) {
  std::vector<LedgerSegment> segments;
  std::map<Doing, int> open;
  int64_t now = 0;
  const auto account = [&](int64_t until) {
    if (until <= now) return;
    LedgerSegment segment = Classify(program, open);
    segment.span = {now, until};
    if (!segments.empty() && SameAccount(segments.back(), segment)) {
      segments.back().span.end = until;
    } else {
      segments.push_back(std::move(segment));
    }
    now = until;
  };
  for (const Edge& edge : EdgesOf(program, step)) {
    account(edge.time);
    // Edges at the same instant may come in any order, so a count may be negative until time
    // passes.
    const auto it = open.emplace(edge.doing, 0).first;
    if ((it->second += edge.delta) == 0) open.erase(it);
  }
  account(step.end_nanoseconds() - step.begin_nanoseconds());
  return segments;
}

Ledger LedgerOf(const std::vector<LedgerSegment>& segments) {
  std::map<std::tuple<int, std::string, std::string>, int64_t> sums;
  int64_t communication = 0, hidden = 0;
  for (const LedgerSegment& segment : segments) {
    const int64_t spent = segment.span.length();
    sums[{segment.part, segment.group, segment.phase}] += spent;
    if (!segment.group.empty()) communication += spent;
    if (segment.part == Ledger::COMPUTE_HIDING) hidden += spent;
  }
  Ledger ledger;
  for (const auto& [key, nanoseconds] : sums) {
    Ledger::Entry* entry = ledger.add_entries();
    entry->set_part(static_cast<Ledger::Part>(std::get<0>(key)));
    entry->set_group(std::get<1>(key));
    entry->set_phase(std::get<2>(key));
    entry->set_seconds(static_cast<double>(nanoseconds) * 1e-9);
  }
  ledger.set_communication_seconds(static_cast<double>(communication) * 1e-9);
  ledger.set_hidden_seconds(static_cast<double>(hidden) * 1e-9);
  ledger.set_steps(1);
  return ledger;
}

std::string SegmentName(const LedgerSegment& segment) {
  std::string name =
      absl::StrReplaceAll(absl::AsciiStrToLower(Ledger::Part_Name(segment.part)), {{"_", " "}});
  for (const std::string& word : {segment.group, segment.phase}) {
    if (!word.empty()) absl::StrAppend(&name, " ", word);
  }
  return name;
}

}  // namespace stretto::cli

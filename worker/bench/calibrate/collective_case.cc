// SPDX-License-Identifier: Apache-2.0

// A case copies what its collective sends and receives to buffers of its own. What two lanes lose
// is found from the time in which both run, and split into a wait and a rate by two sizes.

#include "worker/bench/calibrate/collective_case.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "worker/engine/cost/table.h"
#include "worker/engine/cost/work.h"

namespace stretto::bench {
namespace {

Interval Around(absl::Span<const Interval> intervals) {
  Interval span = intervals.front();
  for (const Interval& each : intervals) {
    span.begin = std::min(span.begin, each.begin);
    span.end = std::max(span.end, each.end);
  }
  return span;
}

// Returns how many of the intervals lie within a window, counting parts.
double CountWithin(absl::Span<const Interval> intervals, const Interval& window) {
  double count = 0;
  for (const Interval& each : intervals) {
    const auto within = static_cast<double>(
        std::max<int64_t>(0, std::min(each.end, window.end) - std::max(each.begin, window.begin)));
    const auto length = static_cast<double>(std::max<int64_t>(1, each.end - each.begin));
    count += within / length;
  }
  return count;
}

// Adds what a call of a collective needs to a step, and returns the call.
Op CallIn(const CollectiveCase& collective, const IdVector<GroupId, Group>& groups,
          StepProgram* step) {
  const int first = step->buffers.next().value();
  for (const Buffer& buffer : collective.buffers) step->buffers.push_back(buffer);
  Op op = collective.op;
  for (BufferId& id : op.in) id = id + first;
  for (BufferId& id : op.out) id = id + first;
  step->groups = groups;
  op.lane = step->lanes.Add({LaneNameOf(groups[op.group])});
  return op;
}

}  // namespace

std::map<std::string, CollectiveCase> CollectivesOf(const Program& program) {
  std::map<std::string, CollectiveCase> found;
  for (const Op& op : program.ops) {
    if (!IsCollective(op.kind)) continue;
    const Group& group = program.groups[op.group];
    const OpInfo& info = InfoOf(op.kind);
    CollectiveCase next{.operation = OperationKey(program, op),
                        .kind = info.collective,
                        .ranks = static_cast<int>(group.ranks.size()),
                        .wire_bytes = WireBytes(program, op),
                        .op = op};
    next.op.waits.clear();
    next.op.tag.micro_batch = -1;
    std::map<BufferId, BufferId> copies;
    const auto take = [&](BufferId& id) {
      const auto [at, added] = copies.try_emplace(id, next.buffers.next());
      if (added) {
        const Buffer& source = program.buffers[id];
        next.buffers.push_back({.name = absl::StrCat("sent#", id.value()),
                                .dtype = source.dtype,
                                .shape = source.shape,
                                .arena = ArenaClass::kParameter});
      }
      id = at->second;
    };
    for (BufferId& id : next.op.in) take(id);
    for (BufferId& id : next.op.out) take(id);
    const std::string name = absl::StrCat(
        group.name, " ", IsTransfer(op.kind) ? "transfer" : info.name, " ", next.wire_bytes);
    ++found.try_emplace(name, std::move(next)).first->second.count;
  }
  return found;
}

void AddCalls(const CollectiveCase& collective, int calls, const IdVector<GroupId, Group>& groups,
              StepProgram* step) {
  const Op op = CallIn(collective, groups, step);
  if (step->units.empty()) {
    step->units.push_back({"calls", {}});
    step->instances.emplace_back();
  }
  for (int call = 0; call < calls; ++call) step->units[0].ops.push_back(op);
}

void AddReleased(const CollectiveCase& collective, int release,
                 const IdVector<GroupId, Group>& groups, StepProgram* step) {
  STRETTO_CHECK(step->units.size() == 1 && std::cmp_less(release, step->units[0].ops.size()));
  Op op = CallIn(collective, groups, step);
  IdVector<OpId, Op> computations = std::exchange(step->units[0].ops, {});
  IdVector<OpId, Op>& ops = step->units[0].ops;
  const OpId before = ops.Add(op);
  for (Op& computation : computations) {
    STRETTO_CHECK(computation.waits.empty());
    ops.push_back(std::move(computation));
  }
  ops[before + 1].waits = {before};
  op.waits = {before + 1 + release};
  ops.push_back(std::move(op));
}

double Progress::compute_slowdown() const { return compute > 0 ? seconds / compute : 1; }
double Progress::communication_slowdown() const {
  return communication > 0 ? seconds / communication : 1;
}

Progress ProgressOf(absl::Span<const Interval> intervals, size_t copies, double compute_alone,
                    double communication_alone) {
  const absl::Span<const Interval> computations = intervals.first(copies),
                                   calls = intervals.subspan(copies);
  const Interval a = Around(computations), b = Around(calls);
  const Interval both = {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return {.seconds = static_cast<double>(std::max<int64_t>(0, both.end - both.begin)) * 1e-9,
          .compute = CountWithin(computations, both) * compute_alone,
          .communication = CountWithin(calls, both) * communication_alone};
}

bool AreOfTwoSizes(double shorter, double longer) { return longer >= 1.5 * shorter; }

double TurnOf(const CollectiveBeside& shorter, const CollectiveBeside& longer) {
  const double least = shorter.seconds * shorter.slowdown, most = longer.seconds * longer.slowdown;
  const double slope = std::max(1.0, (most - least) / (longer.seconds - shorter.seconds));
  return std::max(0.0, least - slope * shorter.seconds);
}

Contention ContentionOf(double compute, const CollectiveBeside& collective, double turn) {
  const auto lost = [](double slowdown) { return 1 - 1 / std::max(1.0, slowdown); };
  const double share = turn / (collective.seconds * std::max(1.0, collective.slowdown));
  const double waits = std::min(kMostContention, share);
  return {.compute = std::min(kMostContention, lost(compute) / (1 - waits)),
          .communication = lost(collective.slowdown - turn / collective.seconds),
          .turn_seconds = turn};
}

}  // namespace stretto::bench

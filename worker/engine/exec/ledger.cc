// SPDX-License-Identifier: Apache-2.0

// Computes the ledger as a sweep over time. Every interval of an operation or of a wait of the host
// becomes an opening and a closing edge, clipped to the step. Between two edges the set of open
// intervals is constant, so the time between them goes to exactly one account (Classify: the first
// match), and the accounts add up to the length of the step.

#include "worker/engine/exec/ledger.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace stretto {
namespace {

constexpr int kPhases = 4;

// The open intervals at an instant: computations and receives by phase, other collectives by
// (group, phase), and waits of the host.
struct Open {
  std::array<int, kPhases> compute = {}, receive = {};
  std::map<std::pair<GroupId, int>, int> communication;  // (group, phase) -> count
  int data = 0, checkpoint = 0, evaluation = 0;
};

enum class Activity : uint8_t {
  kCompute,
  kCommunication,
  kReceive,
  kData,
  kCheckpoint,
  kEvaluation
};

struct Edge {
  int64_t time;
  int delta;  // +1 opens, -1 closes
  Activity activity;
  GroupId group;
  int phase;
};

using Account = std::tuple<LedgerPart, GroupId, int>;  // part, group (-1 none), phase (-1 none)

int FirstOpen(const std::array<int, kPhases>& counts) {
  for (int phase = 0; phase < kPhases; ++phase) {
    if (counts[phase] > 0) return phase;
  }
  return -1;
}

// The first match wins. Groups are listed in the program in order of priority (tp before the rest),
// so the first open group is the one that counts.
Account Classify(const Open& open) {
  const int phase = FirstOpen(open.compute);
  const bool communicating = !open.communication.empty();
  if (phase >= 0 && communicating) {
    return {LedgerPart::kComputeHiding, open.communication.begin()->first.first, phase};
  }
  if (phase >= 0) return {LedgerPart::kComputeAlone, GroupId(), phase};
  if (communicating) {
    const auto [group, comm_phase] = open.communication.begin()->first;
    return {LedgerPart::kExposed, group, comm_phase};
  }
  if (const int waiting = FirstOpen(open.receive); waiting >= 0) {
    return {LedgerPart::kPipelineWait, GroupId(), waiting};
  }
  if (open.data > 0) return {LedgerPart::kDataWait, GroupId(), -1};
  if (open.checkpoint > 0) return {LedgerPart::kCheckpointWait, GroupId(), -1};
  if (open.evaluation > 0) return {LedgerPart::kEvaluation, GroupId(), -1};
  return {LedgerPart::kIdle, GroupId(), -1};
}

void Apply(const Edge& edge, Open* open) {
  switch (edge.activity) {
    case Activity::kCompute:
      open->compute[edge.phase] += edge.delta;
      break;
    case Activity::kCommunication: {
      auto it = open->communication.try_emplace({edge.group, edge.phase}, 0).first;
      if ((it->second += edge.delta) == 0) open->communication.erase(it);
      break;
    }
    case Activity::kReceive:
      open->receive[edge.phase] += edge.delta;
      break;
    case Activity::kData:
      open->data += edge.delta;
      break;
    case Activity::kCheckpoint:
      open->checkpoint += edge.delta;
      break;
    case Activity::kEvaluation:
      open->evaluation += edge.delta;
      break;
  }
}

// Returns the first group of each group's axis: the ledger has one account for an axis.
IdVector<GroupId, GroupId> AccountsOf(const IdVector<GroupId, Group>& groups) {
  IdVector<GroupId, GroupId> accounts;
  for (GroupId group : groups.ids()) {
    GroupId first = 0;
    while (groups[first].axis() != groups[group].axis()) first = first + 1;
    accounts.push_back(first);
  }
  return accounts;
}

std::vector<Edge> EdgesOf(const Program& program, absl::Span<const Interval> intervals,
                          const HostWaits& waits, Interval step) {
  std::vector<Edge> edges;
  auto add = [&](Interval interval, Activity activity, GroupId group, int phase) {
    const int64_t begin = std::max(interval.begin, step.begin),
                  end = std::min(interval.end, step.end);
    if (begin >= end) return;
    edges.push_back({begin, +1, activity, group, phase});
    edges.push_back({end, -1, activity, group, phase});
  };
  const IdVector<GroupId, GroupId> accounts = AccountsOf(program.groups);
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    const Activity activity = op.group < 0               ? Activity::kCompute
                              : op.kind == OpKind::kRecv ? Activity::kReceive
                                                         : Activity::kCommunication;
    add(intervals[id.position()], activity, op.group < 0 ? op.group : accounts[op.group],
        static_cast<int>(op.tag.phase));
  }
  for (const Interval& wait : waits.data) add(wait, Activity::kData, GroupId(), -1);
  for (const Interval& wait : waits.checkpoint) add(wait, Activity::kCheckpoint, GroupId(), -1);
  for (const Interval& wait : waits.evaluation) add(wait, Activity::kEvaluation, GroupId(), -1);
  // At equal times, close before opening, so that adjacent intervals never count as concurrent.
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.time, a.delta) < std::tie(b.time, b.delta);
  });
  return edges;
}

}  // namespace

const char* LongNameOf(Phase phase) {
  constexpr std::array<const char*, kPhases> names = {"forward", "recompute", "backward",
                                                      "optimizer"};
  return names[static_cast<size_t>(phase)];
}

const char* NameOf(LedgerPart part) {
  switch (part) {
    case LedgerPart::kComputeHiding:
      return "compute_hiding";
    case LedgerPart::kComputeAlone:
      return "compute_alone";
    case LedgerPart::kExposed:
      return "exposed";
    case LedgerPart::kDataWait:
      return "data_wait";
    case LedgerPart::kCheckpointWait:
      return "checkpoint_wait";
    case LedgerPart::kIdle:
      return "idle";
    case LedgerPart::kEvaluation:
      return "evaluation";
    case LedgerPart::kPipelineWait:
      return "pipeline_wait";
  }
  return "?";
}

StepLedger ComputeLedger(const Program& program, absl::Span<const Interval> intervals,
                         const HostWaits& waits, Interval step) {
  std::map<Account, int64_t> nanoseconds;
  int64_t communication = 0, hidden = 0, now = step.begin;
  Open open;
  auto account = [&](int64_t until) {
    if (until <= now) return;
    const Account key = Classify(open);
    nanoseconds[key] += until - now;
    if (!open.communication.empty()) communication += until - now;
    if (std::get<0>(key) == LedgerPart::kComputeHiding) hidden += until - now;
    now = until;
  };
  for (const Edge& edge : EdgesOf(program, intervals, waits, step)) {
    account(edge.time);
    Apply(edge, &open);
  }
  account(step.end);

  StepLedger ledger;
  for (const auto& [key, spent] : nanoseconds) {
    const auto [part, group, phase] = key;
    const double seconds = static_cast<double>(spent) * 1e-9;
    ledger.entries.push_back({part, group >= 0 ? program.groups[group].axis() : "",
                              phase >= 0 ? LongNameOf(static_cast<Phase>(phase)) : "", seconds});
    ledger.seconds += seconds;
  }
  ledger.communication_seconds = static_cast<double>(communication) * 1e-9;
  ledger.hidden_seconds = static_cast<double>(hidden) * 1e-9;
  return ledger;
}

}  // namespace stretto

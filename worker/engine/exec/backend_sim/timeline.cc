// SPDX-License-Identifier: Apache-2.0

// The event loop of the simulation. An activity is a computation of a lane or a transfer of a
// meeting (the lanes that carry one group); it has remaining work and a rate. Two things happen at
// an event: an activity ends, which frees its lanes and the operations that waited for it, and the
// rates of the ranks concerned change (Settle), which moves the ends of their activities. The rate
// of a transfer is that of the network, times that of contention with computation, once it has its
// turn on the core.
// `finishes_` orders activities by their end, so an event takes logarithmic time in their number.

#include "worker/engine/exec/backend_sim/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/cost/work.h"
#include "worker/engine/exec/backend_sim/network.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

struct SimLane {
  size_t rank = 0;  // its place among the simulated ones
  std::vector<OpId> ops;
  size_t head = 0;       // the operation that runs, or is to run next
  bool running = false;  // or waiting for the other ranks
};

struct SimRank {
  SimulatedRank input;
  IdVector<LaneId, size_t> lanes;
  IdVector<GroupId, size_t> meetings;  // of groups that communicate
  std::vector<size_t> transfers;       // activities that it takes part in
  IdVector<OpId, size_t> pending;      // waits that are not done
  std::vector<size_t> first;           // per operation, of the dependents
  std::vector<OpId> dependents;        // those that wait for an operation
  int computing = 0, transferring = 0;
};

// The rendezvous of one group: on each member, the lane that carries its operations.
struct Meeting {
  std::vector<size_t> lanes;
  size_t needed = 0;
  size_t arrived = 0;
  double seconds = 0;  // the longest of those that came
  CollectiveKind kind = CollectiveKind::kBarrier;
};

// A computation or a transfer in progress: `remaining` seconds of work at time `since`, done at
// `rate`.
struct Activity {
  double remaining = 0, since = 0;
  double rate = 0;  // 0: none, or not settled yet
  bool active = false;
  // A transfer that has just begun may have to wait for its turn on a core. While it does,
  // `remaining` is what is left of the wait. `work` are its own seconds, of which `saved` are for
  // bytes that an idle link has saved up.
  enum class Turn { kOpen, kWaits, kHas } turn = Turn::kHas;
  double work = 0, saved = 0;
};

constexpr double kLongest = 1e9;  // seconds: 31 years, a tenth of what nanoseconds can say

class Simulation {
  static constexpr size_t kNoMeeting = std::numeric_limits<size_t>::max();

 public:
  explicit Simulation(absl::Span<const SimulatedRank> inputs) {
    for (const SimulatedRank& input : inputs) {
      ranks_.emplace_back().input = input;
      simulated_.insert(input.program->rank);
      intervals_.emplace_back(input.program->ops.size());
    }
    for (size_t r = 0; r < ranks_.size(); ++r) AddRank(r);
    activities_.resize(lanes_.size() + meetings_.size());
    for (size_t m = 0; m < meetings_.size(); ++m) {
      for (size_t lane : meetings_[m].lanes) {
        ranks_[lanes_[lane].rank].transfers.push_back(lanes_.size() + m);
      }
    }
  }

  absl::StatusOr<std::vector<std::vector<Interval>>> Run() {
    for (size_t lane = 0; lane < lanes_.size(); ++lane) TryStart(lane);
    Settle();
    while (!finishes_.empty()) {
      const auto [time, activity] = *finishes_.begin();
      finishes_.erase(finishes_.begin());
      if (time > kLongest) {
        return absl::InvalidArgumentError(absl::StrCat("simulated time: found more than ", kLongest,
                                                       " s, expected costs of a shorter step"));
      }
      now_ = time;
      const bool waited = activities_[activity].turn == Activity::Turn::kWaits;
      if (waited) BeginWork(activity);
      if (!waited) Complete(activity);
      Settle();
    }
    RETURN_IF_ERROR(CheckFinished());
    return std::move(intervals_);
  }

 private:
  void AddRank(size_t r) {
    SimRank& rank = ranks_[r];
    const Program& program = *rank.input.program;
    const size_t base = lanes_.size();
    for (size_t lane = 0; lane < program.lanes.size(); ++lane) {
      rank.lanes.push_back(lanes_.size());
      lanes_.push_back({.rank = r, .ops = {}});
    }
    rank.meetings = IdVector<GroupId, size_t>(program.groups.size(), kNoMeeting);
    rank.pending.resize(program.ops.size());
    rank.first.resize(program.ops.size() + 1);
    for (OpId index : program.ops.ids()) {
      const Op& op = program.ops[index];
      const size_t lane = base + op.lane.position();
      lanes_[lane].ops.push_back(index);
      if (op.group >= 0 && rank.meetings[op.group] == kNoMeeting) {
        rank.meetings[op.group] = Join(rank.input, op.group, lane);
      }
      rank.pending[index] = op.waits.size();
      for (OpId wait : op.waits) ++rank.first[wait.position() + 1];
    }
    for (size_t i = 0; i < program.ops.size(); ++i) {
      rank.first[i + 1] += rank.first[i];
    }
    rank.dependents.resize(rank.first.back());
    std::vector<size_t> next = rank.first;
    for (OpId op : program.ops.ids()) {
      for (OpId wait : program.ops[op].waits) rank.dependents[next[wait.position()]++] = op;
    }
  }

  // Returns the meeting of a group, to which `lane` of one member now belongs.
  size_t Join(const SimulatedRank& input, GroupId id, size_t lane) {
    const Group& group = input.program->groups[id];
    const auto [it, fresh] = meeting_ids_.try_emplace({group.name, group.ranks}, meetings_.size());
    const size_t meeting = it->second;
    if (fresh) {
      const auto is_simulated = [&](Rank rank) { return simulated_.contains(rank); };
      const auto needed = std::count_if(group.ranks.begin(), group.ranks.end(), is_simulated);
      meetings_.push_back({.lanes = {}, .needed = static_cast<size_t>(needed)});
      STRETTO_CHECK(network_.AddChannel() == meeting);
    }
    network_.AddGroup(meeting, input.cost->interconnect, group);
    for (const RankCopy& copy : input.copies)
      network_.AddGroup(meeting, input.cost->interconnect, copy.groups.at(id));
    meetings_[meeting].lanes.push_back(lane);
    return meeting;
  }

  const Op& HeadOf(const SimLane& lane) const {
    return ranks_[lane.rank].input.program->ops[lane.ops[lane.head]];
  }
  Interval& IntervalOf(const SimLane& lane) {
    return intervals_[lane.rank][lane.ops[lane.head].position()];
  }
  int64_t Nanoseconds() const { return std::llround(now_ * 1e9); }

  void TryStart(size_t l) {
    SimLane& lane = lanes_[l];
    if (lane.running || lane.head == lane.ops.size()) return;
    SimRank& rank = ranks_[lane.rank];
    if (rank.pending[lane.ops[lane.head]] > 0) return;
    lane.running = true;
    IntervalOf(lane).begin = Nanoseconds();
    const Op& op = HeadOf(lane);
    const SimulatedRank& input = rank.input;
    const double seconds = input.seconds != nullptr ? (*input.seconds)[lane.ops[lane.head]]
                                                    : input.cost->Alone(*input.program, op);
    STRETTO_CHECK(seconds >= 0);
    if (op.group < 0) {
      ++rank.computing;
      Begin(l, seconds);
      unsettled_.insert(lane.rank);
      return;
    }
    const size_t joined = rank.meetings[op.group];
    Meeting& meeting = meetings_[joined];
    meeting.seconds = std::max(meeting.seconds, seconds);
    if (++meeting.arrived < meeting.needed) return;
    meeting.kind = InfoOf(op.kind).collective;
    const double saved = network_.Begin(joined, meeting.kind, WireBytes(*input.program, op), now_);
    activities_[lanes_.size() + joined] = {.since = now_,
                                           .active = true,
                                           .turn = Activity::Turn::kOpen,
                                           .work = meeting.seconds,
                                           .saved = saved};
    for (size_t member : meeting.lanes) {
      ++ranks_[lanes_[member].rank].transferring;
      unsettled_.insert(lanes_[member].rank);
    }
  }

  void Begin(size_t activity, double seconds) {
    activities_[activity] = {.remaining = seconds, .since = now_, .active = true};
  }

  // A transfer waits for its turn if a rank of it already computes when it begins, until none does.
  // Then it sends at once what the link has saved up. One that waits for its whole turn does not:
  // the link also saves up during each turn, so the measured seconds of a turn allow for that.
  void TakeTurn(size_t transfer) {
    Activity& activity = activities_[transfer];
    if (!activity.active || activity.turn == Activity::Turn::kHas) return;
    const double turn = TurnOf(transfer);
    if (turn == 0) {
      if (activity.turn == Activity::Turn::kWaits) finishes_.erase({EndOf(activity), transfer});
      activity.work = std::max(0.0, activity.work - activity.saved);
      BeginWork(transfer);
    } else if (activity.turn == Activity::Turn::kOpen) {
      activity.turn = Activity::Turn::kWaits;
      activity.remaining = turn;
    }
  }

  void BeginWork(size_t transfer) {
    Begin(transfer, activities_[transfer].work);
    for (size_t member : meetings_[transfer - lanes_.size()].lanes)
      unsettled_.insert(lanes_[member].rank);
  }

  // Returns the longest wait for a turn beside what its ranks compute now.
  double TurnOf(size_t transfer) const {
    double turn = 0;
    for (size_t member : meetings_[transfer - lanes_.size()].lanes) {
      const SimRank& rank = ranks_[lanes_[member].rank];
      for (size_t lane : rank.lanes) {
        if (!activities_[lane].active || PostedBefore(lanes_[member], lanes_[lane])) continue;
        turn = std::max(turn, TogetherOf(rank, lane, transfer).turn_seconds);
      }
    }
    return turn;
  }

  // Whether the end of a lane's last transfer made both its next one and a computation ready: a
  // rank posts the one before it wakes the other (docs/design/0093-posted-before-others-wake.md).
  bool PostedBefore(const SimLane& transfers, const SimLane& computes) const {
    const std::vector<Interval>& of = intervals_[transfers.rank];
    const int64_t posted = of[transfers.ops[transfers.head].position()].begin;
    return transfers.head > 0 && of[transfers.ops[transfers.head - 1].position()].end == posted &&
           of[computes.ops[computes.head].position()].begin == posted;
  }

  void Complete(size_t activity) {
    activities_[activity].active = false;
    if (activity < lanes_.size()) {
      --ranks_[lanes_[activity].rank].computing;
      unsettled_.insert(lanes_[activity].rank);
      Finish(activity);
      return;
    }
    network_.End(activity - lanes_.size(), now_);
    Meeting& meeting = meetings_[activity - lanes_.size()];
    meeting.arrived = 0;
    meeting.seconds = 0;
    for (size_t member : meeting.lanes) {
      --ranks_[lanes_[member].rank].transferring;
      unsettled_.insert(lanes_[member].rank);
    }
    for (size_t member : meeting.lanes) Finish(member);
  }

  // Ends the lane's operation and starts the operations that waited for it.
  void Finish(size_t l) {
    SimLane& lane = lanes_[l];
    SimRank& rank = ranks_[lane.rank];
    IntervalOf(lane).end = Nanoseconds();
    const size_t op = lane.ops[lane.head].position();
    ++lane.head;
    lane.running = false;
    TryStart(l);
    const IdVector<OpId, Op>& ops = rank.input.program->ops;
    for (size_t d = rank.first[op]; d < rank.first[op + 1]; ++d) {
      const OpId dependent = rank.dependents[d];
      if (--rank.pending[dependent] == 0) {
        TryStart(rank.lanes[ops[dependent].lane]);
      }
    }
  }

  // Sets the rates, and so the ends, of all activities on ranks whose state has changed, and of
  // transfers whose share of the network has.
  void Settle() {
    for (size_t r : unsettled_) {
      for (size_t transfer : ranks_[r].transfers) TakeTurn(transfer);
    }
    for (size_t meeting : network_.Settle())
      SetRate(lanes_.size() + meeting, TransferRate(lanes_.size() + meeting));
    for (size_t r : unsettled_) {
      const SimRank& rank = ranks_[r];
      for (size_t lane : rank.lanes) SetRate(lane, ComputeRate(rank, lane));
      for (size_t transfer : rank.transfers) SetRate(transfer, TransferRate(transfer));
    }
    unsettled_.clear();
  }

  // Beside the transfers of its rank. One that waits for its turn takes nothing of the core.
  double ComputeRate(const SimRank& rank, size_t lane) const {
    double rate = 1;
    if (rank.transferring == 0 || !activities_[lane].active) return rate;
    for (size_t transfer : rank.transfers) {
      const Activity& other = activities_[transfer];
      if (!other.active || other.turn == Activity::Turn::kWaits) continue;
      rate = std::min(rate, 1 - TogetherOf(rank, lane, transfer).compute);
    }
    return rate;
  }

  double TransferRate(size_t activity) const {
    if (activities_[activity].turn == Activity::Turn::kWaits) return 1;
    double rate = 1;  // beside computation
    for (size_t member : meetings_[activity - lanes_.size()].lanes) {
      const SimRank& rank = ranks_[lanes_[member].rank];
      if (rank.computing == 0) continue;
      for (size_t lane : rank.lanes) {
        if (!activities_[lane].active) continue;
        rate = std::min(rate, 1 - TogetherOf(rank, lane, activity).communication);
      }
    }
    return rate * network_.RateOf(activity - lanes_.size());
  }

  // Of the computation that a lane runs and of a transfer of its rank.
  const Contention& TogetherOf(const SimRank& rank, size_t lane, size_t transfer) const {
    return rank.input.cost->Together(HeadOf(lanes_[lane]).kind,
                                     meetings_[transfer - lanes_.size()].kind);
  }

  void SetRate(size_t index, double rate) {
    Activity& activity = activities_[index];
    if (!activity.active || activity.rate == rate) return;
    // Credit the work done so far at the old rate before the rate changes.
    if (activity.rate > 0) {
      finishes_.erase({EndOf(activity), index});
      activity.remaining =
          std::max(0.0, activity.remaining - (now_ - activity.since) * activity.rate);
      activity.since = now_;
    }
    activity.rate = rate;
    finishes_.emplace(EndOf(activity), index);
  }

  static double EndOf(const Activity& of) { return of.since + of.remaining / of.rate; }

  absl::Status CheckFinished() const {
    std::string stuck;
    for (const SimLane& lane : lanes_) {
      if (lane.head == lane.ops.size()) continue;
      absl::StrAppend(&stuck, stuck.empty() ? "" : "; ", "rank ",
                      ranks_[lane.rank].input.program->rank.value(), " at '",
                      PrintOp(*ranks_[lane.rank].input.program, lane.ops[lane.head]), "'");
    }
    if (stuck.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("cannot simulate: nothing can proceed, with ", stuck));
  }

  std::vector<SimRank> ranks_;
  std::set<Rank> simulated_;
  std::vector<SimLane> lanes_;  // of all ranks
  std::vector<Meeting> meetings_;
  std::map<std::pair<std::string, IdVector<GroupRank, Rank>>, size_t> meeting_ids_;
  std::vector<Activity> activities_;              // of lanes, then of meetings
  std::set<std::pair<double, size_t>> finishes_;  // end, activity
  std::set<size_t> unsettled_;                    // ranks
  Network network_;                               // a channel for each meeting
  double now_ = 0;
  std::vector<std::vector<Interval>> intervals_;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<Interval>>> Simulate(absl::Span<const SimulatedRank> ranks) {
  RETURN_IF_ERROR(CheckRanks(ranks));
  return Simulation(ranks).Run();
}

absl::StatusOr<std::vector<Interval>> Simulate(const Program& program, const CostModel& cost) {
  ASSIGN_OR_RETURN(auto intervals, Simulate(std::vector<SimulatedRank>{{&program, &cost, {}}}));
  return std::move(intervals.front());
}

Interval SpanOf(absl::Span<const Interval> intervals) {
  Interval span;
  for (const Interval& interval : intervals) span.end = std::max(span.end, interval.end);
  return span;
}

}  // namespace stretto

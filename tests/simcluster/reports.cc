// SPDX-License-Identifier: Apache-2.0

// The reports of ranks, from the trainer's log and its stream to the coordinator. ReportTable
// decides what is sent; here is what the relay and a trainer's reporter have around it: logs, which
// a full disk does not take, and the two readers of each.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/reporting/dropped_reports.h"
#include "tests/simcluster/coordinator_sim.h"

namespace stretto::coordinator::testing {
namespace {

using daemon::ReportTable;
using v1alpha1::RankReport;

constexpr size_t kLongLog = 6;  // reports at which a log is shortened

// Of the kind and the content of a report.
int64_t FingerprintOf(const RankReport& report) {
  return 1000 * static_cast<int64_t>(report.report_case()) + report.step().step();
}

bool IsStep(int64_t fingerprint) { return fingerprint / 1000 == RankReport::kStep; }

// Drops the steps of the older half, as worker/report/shorten_log.h.
void Shorten(std::vector<RankReport>& log) {
  std::vector<RankReport> kept;
  v1alpha1::DroppedReports dropped;
  for (size_t i = 0; i < log.size(); ++i) {
    if (i < log.size() / 2 && log[i].has_step()) {
      Drop(log[i], &dropped);
      continue;
    }
    Precede(&dropped, &log[i]);
    kept.push_back(std::move(log[i]));
  }
  log = std::move(kept);
}

// Returns up to `most` reports with numbers above `known`, as a reader of the log does.
std::vector<RankReport> ReadAfter(const std::vector<RankReport>& log, int64_t known, size_t most) {
  std::vector<RankReport> read;
  for (const RankReport& report : log) {
    if (report.sequence() > known && read.size() < most) read.push_back(report);
  }
  return read;
}

absl::Time TimeOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

RankExited ExitedOf(const v1alpha1::RankExit& exit) {
  RankExited event;
  event.exit_code = exit.exit_code();
  event.signal = exit.signal();
  event.reason = exit.reason();
  event.stopped_by_daemon = exit.stopped_by_daemon();
  return event;
}

}  // namespace

RankReported ClusterSim::EventOf(const Report& report) {
  RankReported event;
  event.job_uid = report.job_uid();
  event.epoch = Epoch(report.epoch());
  event.rank = Rank::Of(report.rank());
  event.sequence = report.sequence();
  event.dropped = report.dropped().reports();
  switch (report.report_case()) {
    case RankReport::kPrepared:
      event.report = RankPrepared{TimeOf(report.prepared().time())};
      break;
    case RankReport::kStep:
      event.report = StepDone{report.step().step(), TimeOf(report.step().end_time())};
      break;
    case RankReport::kCheckpoint:
      event.report = CheckpointDone{.step = report.checkpoint().step(),
                                    .name = report.checkpoint().name(),
                                    .ok = report.checkpoint().ok(),
                                    .message = report.checkpoint().message(),
                                    .request = report.checkpoint().request()};
      break;
    case RankReport::kExit:
      event.report = ExitedOf(report.exit());
      break;
    case RankReport::kWarning:
      event.report = RankWarned{report.warning().condition(), report.warning().reason(),
                                report.warning().message()};
      break;
    case RankReport::kFirstOperation:
    case RankReport::kSamples:
    case RankReport::kProfile:
    case RankReport::REPORT_NOT_SET:
      break;
  }
  return event;
}

// ---- the trainer

// Into its log if the disk takes it, and to its daemon.
void ClusterSim::Tell(Node& node, const RankKey& key, Report report) {
  Trainer& trainer = node.trainers.at(key);
  report.set_job_id(trainer.job_id);
  report.set_job_uid(key.job_uid);
  report.set_epoch(key.epoch);
  report.set_rank(key.rank);
  report.set_sequence(trainer.logged() + std::ssize(trainer.unwritten) + 1);
  written_[key].push_back(FingerprintOf(report));
  trainer.exits |= report.has_exit();
  trainer.unwritten.push_back(report);
  if (!DiskFull(node)) {
    trainer.log.insert(trainer.log.end(), trainer.unwritten.begin(), trainer.unwritten.end());
    trainer.unwritten.clear();
    if (trainer.log.size() >= kLongLog) Shorten(trainer.log);
  }
  // A trainer whose stream breaks connects again, and then its log is read.
  const bool lost = !trainer.exits && !calm_ && Pick(10) == 0;
  if (lost || node.reports.Live(report) == ReportTable::Arrival::kGap) {
    ++probes_["report skipped by a stream"];
    node.catch_up.insert(key);
  }
  node.order.Wake();
  if (trainer.unwritten.empty() || std::exchange(trainer.warned, true)) return;
  Report warning;
  warning.mutable_warning()->set_condition("LogIntact");
  warning.mutable_warning()->set_reason("DiskFull");
  Tell(node, key, std::move(warning));
}

// ---- the relay

void ClusterSim::AddRank(Node& node, const RankKey& key) {
  Trainer& trainer = node.trainers.at(key);
  if (!node.reports.Add(key, trainer.job_id, trainer.slot, "log")) return;
  trainer.arrived = trainer.resent = 0;
  CatchUp(node, key);
}

void ClusterSim::CatchUp(Node& node, const RankKey& key) {
  const auto found = node.trainers.find(key);
  if (found == node.trainers.end()) return;
  Trainer& trainer = found->second;
  node.reports.Logged(key, ReadAfter(trainer.log, trainer.arrived, trainer.log.size()));
  trainer.arrived = trainer.logged();
  node.order.Wake();
}

// A report of the daemon itself.
void ClusterSim::Append(Node& node, const RankKey& key, Report report) {
  const std::optional<Report> numbered = node.reports.Numbered(key, std::move(report));
  if (!numbered.has_value()) return;
  Trainer& trainer = node.trainers.at(key);
  const bool logged = !DiskFull(node) && numbered->sequence() == trainer.logged() + 1;
  if (logged) trainer.log.push_back(*numbered);
  if (node.reports.Own(key, *numbered, logged)) written_[key].push_back(FingerprintOf(*numbered));
  node.order.Wake();
}

std::optional<ClusterSim::Report> ClusterSim::NextReport(Node& node) {
  ReportTable::Missing missing;
  while (true) {
    ReportTable::Turn turn = node.reports.Next(missing);
    if (!turn.read.has_value()) return std::move(turn.report);
    Trainer& trainer = node.trainers.at(*turn.read);
    const std::vector<Report> read = ReadAfter(trainer.log, trainer.resent, 2);
    if (!read.empty()) trainer.resent = read.back().sequence();
    if (read.empty()) {
      ++probes_["report in no log"];
      missing[*turn.read] = turn.sequence;
    } else {
      ++probes_["report read to be sent"];
      node.reports.Fetched(*turn.read, read);
    }
  }
}

void ClusterSim::ForgetReports(const RankKey& key) {
  written_.erase(key);
  lossy_.erase(key);
  counted_.erase(key);
  counted_ever_.erase(key);
}

// ---- checks

void ClusterSim::CheckSent(const Node& node, const Report& report) {
  const RankKey key = daemon::KeyOf(report);
  Check(!report.has_exit() || node.trainers.at(key).ended,
        "an exit leaves when the process is gone");
  if (lossy_.contains(key)) return;
  const std::vector<int64_t>& written = written_[key];
  const int64_t first = FirstNumber(report), sequence = report.sequence();
  const bool known = first >= 1 && sequence <= std::ssize(written);
  bool as_written = known && written[static_cast<size_t>(sequence) - 1] == FingerprintOf(report);
  for (int64_t number = first; as_written && number < sequence; ++number) {
    ++probes_["dropped by a log"];
    as_written = IsStep(written[static_cast<size_t>(number) - 1]);
  }
  // The daemon forgets what is acknowledged, also if the disk has not taken it.
  const bool forgotten = first > node.trainers.at(key).logged() && sequence <= counted_ever_[key] &&
                         report.warning().reason() == "LogLost";
  if (as_written || forgotten) return;
  Check(false, absl::StrCat("a report is sent as its rank wrote it: ", report.ShortDebugString(),
                            " of ", written.size()));
}

void ClusterSim::Hear(const RankReported& report) {
  Heard& heard = heard_[{report.job_uid, report.epoch.value(), report.rank.value()}];
  heard.prepared |= std::holds_alternative<RankPrepared>(report.report);
  heard.exited |= std::holds_alternative<RankExited>(report.report);
  const auto* step = std::get_if<StepDone>(&report.report);
  if (step != nullptr) heard.last_step = std::max(heard.last_step, step->step);
}

void ClusterSim::Count(const RankKey& key, const RankReported& report, bool fresh) {
  int64_t& counted = counted_[key];
  Check(fresh ? report.sequence - report.dropped == counted + 1 : report.sequence <= counted,
        "each report is counted once, in order");
  if (!fresh) return;
  counted = report.sequence;
  int64_t& ever = counted_ever_[key];
  probes_["report counted by the next coordinator"] += counted <= ever;
  probes_["counted as dropped"] += report.dropped;
  ever = std::max(ever, counted);
}

}  // namespace stretto::coordinator::testing

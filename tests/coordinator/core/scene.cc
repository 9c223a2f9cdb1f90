// SPDX-License-Identifier: Apache-2.0
#include "tests/coordinator/core/scene.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/queue_view.h"
#include "proto/base/check.h"

namespace stretto::coordinator::testing {
namespace {

const char* RankStateName(RankState state) {
  switch (state) {
    case RankState::kAssigned:
      return "assigned";
    case RankState::kPrepared:
      return "prepared";
    case RankState::kExited:
      return "exited";
    case RankState::kLost:
      return "lost";
  }
  STRETTO_CHECK(false);
}

std::string Text(const JobRecord& job) {
  std::string text = absl::StrCat("job ", job.id, " ", JobStateName(job.state));
  if (job.attempt > 0)
    absl::StrAppend(&text, " attempt=", job.attempt, " epoch=", job.epoch.value());
  if (!job.ranks.empty()) {
    absl::StrAppend(&text,
                    " ranks=", absl::StrJoin(job.ranks, ",", [](auto* out, const auto& rank) {
                      absl::StrAppend(out, RankStateName(rank.state));
                    }));
  }
  if (!job.last_checkpoint.empty()) absl::StrAppend(&text, " checkpoint=", job.last_checkpoint);
  if (job.first_failure) {
    absl::StrAppend(&text, " first_failure=rank", job.first_failure->rank, ":",
                    job.first_failure->reason);
  }
  if (job.restarts > 0) absl::StrAppend(&text, " restarts=", job.restarts);
  if (!job.summary.empty()) absl::StrAppend(&text, " summary");
  if (job.retire_time) absl::StrAppend(&text, " retired");
  return text;
}

std::string Text(const WorkerRecord& worker) {
  std::string text =
      absl::StrCat("worker ", worker.id, worker.state == WorkerState::kReady ? " READY" : " LOST",
                   " slots=", worker.devices.size());
  if (!worker.cordon.empty()) absl::StrAppend(&text, " cordon=", worker.cordon);
  for (const WorkerDevice& device : worker.devices) {
    if (!device.fault.empty()) absl::StrAppend(&text, " fault@", device.slot, "=", device.fault);
  }
  return text;
}
std::string Text(const EpochRecord& epoch) { return absl::StrCat("epoch ", epoch.last.value()); }
std::string Text(const JobErased& erased) { return absl::StrCat("erase job ", erased.id); }
std::string Text(const WorkerErased& erased) { return absl::StrCat("erase worker ", erased.id); }

std::string Text(const SendRegistered& m) {
  std::string text = absl::StrCat("registered lease=", absl::FormatDuration(m.lease));
  for (const HeldRankReply& held : m.held) {
    absl::StrAppend(&text, " ", held.job_uid, "/", held.rank.value(), held.keep ? "=keep" : "=end");
    if (held.keep) absl::StrAppend(&text, ":acked=", held.acked_sequence);
  }
  return text;
}
std::string Text(const SendAssign& m) {
  std::string text =
      absl::StrCat("assign ", m.job_id, " epoch=", m.epoch.value(), " world=", m.world_size,
                   " rank@slot=", absl::StrJoin(m.ranks, ",", [](auto* out, const auto& rank) {
                     absl::StrAppend(out, rank.rank.value(), "@", rank.slot);
                   }));
  if (m.attempt > 1) absl::StrAppend(&text, " attempt=", m.attempt, " saved=", m.saved_step);
  if (m.layout > 0) absl::StrAppend(&text, " layout=", m.layout);
  return text;
}
std::string Text(const SendStop& m) {
  return absl::StrCat("stop ", m.job_id, " epoch=", m.epoch.value(), " reason=", m.reason,
                      " grace=", absl::FormatDuration(m.grace), m.checkpoint ? " checkpoint" : "");
}
std::string Text(const SendSave& m) {
  return absl::StrCat("save ", m.job_id, " epoch=", m.epoch.value(), " request=", m.request);
}
std::string Text(const SendAck& m) {
  return absl::StrCat("ack ", m.job_uid, "/", m.rank.value(), " sequence=", m.sequence);
}
std::string Text(const CloseSession& m) { return absl::StrCat("close ", StatusText(m.status)); }

const char* Text(ConditionStatus status) {
  return status == ConditionStatus::kTrue    ? "TRUE"
         : status == ConditionStatus::kFalse ? "FALSE"
                                             : "UNKNOWN";
}

}  // namespace

RankExited Completed() {
  RankExited exit;
  exit.reason = "Completed";
  return exit;
}

RankExited Killed(int32_t signal) {
  RankExited exit;
  exit.signal = signal;
  exit.reason = "Killed";
  return exit;
}

RankExited Stopped() {
  RankExited exit;
  exit.reason = "Cancelled";
  exit.stopped_by_daemon = true;
  return exit;
}

RankExited Failed(int32_t code, const std::string& reason) {
  RankExited exit;
  exit.exit_code = code;
  exit.reason = reason;
  return exit;
}

std::string StatusText(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message());
}

namespace {

// Time passes in steps of any length here, and all of it counts.
CoreOptions InAnySteps(CoreOptions options) {
  options.longest_round = absl::InfiniteDuration();
  return options;
}

}  // namespace

Scene::Scene(CoreOptions options)
    : options_(InAnySteps(options)),
      driver_(std::make_unique<Driver>(Core(options_), *this, *this)) {}

Result Scene::Do(const Event& event) {
  Result result = driver_->Submit(event, {.wall = now(), .steady = now_ - absl::UnixEpoch()});
  if (!result.status.ok()) log_.push_back(absl::StrCat("error ", StatusText(result.status)));
  return result;
}

Result Scene::Submit(const std::string& id, Gang gang, const std::string& request,
                     const std::string& body, bool validate_only, int32_t kind) {
  CreateJob create;
  create.job_id = id;
  create.uid = absl::StrCat("uid-", id);
  create.spec = "spec";
  create.gang = std::move(gang);
  create.device_kind = kind;
  create.total_steps = 100;
  create.restart = policy;
  create.fallbacks = fallbacks;
  create.priority = priority;
  create.project = project;
  create.saves = saves;
  create.request_id = request;
  create.fingerprint = body;
  create.validate_only = validate_only;
  Result result = Do(create);
  if (result.status.ok()) log_.push_back(absl::StrCat("returns ", result.job_id));
  return result;
}

Result Scene::Cancel(const std::string& id) { return Do(CancelJob{id, "ann"}); }
Result Scene::Checkpoint(const std::string& id) { return Do(CheckpointJob{id, "ann"}); }
Result Scene::Suspend(const std::string& id) { return Do(SuspendJob{id, "ann"}); }
Result Scene::Resume(const std::string& id) { return Do(ResumeJob{id, "ann"}); }
Result Scene::Cordon(const std::string& worker, bool drain) {
  return Do(CordonWorker{worker, "by request", drain});
}
Result Scene::Uncordon(const std::string& worker) { return Do(UncordonWorker{worker}); }

Result Scene::Delete(const std::string& id) {
  std::erase_if(reports_, [&id](const auto& entry) { return std::get<0>(entry.first) == id; });
  return Do(DeleteJob{id});
}

Result Scene::Forget(const std::string& worker) { return Do(ForgetWorker{worker}); }

Result Scene::Register(const std::string& worker, int32_t slots, const std::vector<Held>& held,
                       const std::string& incarnation, const std::string& host, int32_t gpus) {
  WorkerRegistered event;
  event.id = worker;
  event.incarnation = incarnation;
  event.host = host;
  event.build = "test";
  event.session = next_session_++;
  for (int32_t slot = 0; slot < slots + gpus; ++slot) {
    event.devices.push_back({.slot = slot,
                             .kind = slot < slots ? 1 : kGpuKind,
                             .description = slot < slots ? "cpu" : "gpu",
                             .memory_bytes = 0});
  }
  for (const Held& rank : held) {
    const JobRecord job = Copy(rank.job);
    event.held.push_back({.job_uid = absl::StrCat("uid-", rank.job),
                          .epoch = rank.epoch ? Epoch(*rank.epoch) : job.epoch,
                          .rank = Rank::Of(rank.rank),
                          .alive = rank.alive,
                          .last_sequence = rank.last_sequence});
  }
  const Result result = Do(event);
  if (result.status.ok()) sessions_[worker] = event.session;
  return result;
}

Result Scene::Disconnect(const std::string& worker) {
  return Do(WorkerDisconnected{worker, sessions_[worker]});
}

Result Scene::RefuseAssignment(const std::string& worker, const std::string& job, Epoch epoch) {
  return Do(AssignmentRefused{worker, absl::StrCat("uid-", job), epoch, "too long"});
}

Result Scene::Heartbeat(const std::string& worker, std::vector<SlotHealth> health) {
  return Do(WorkerHeartbeat{worker, sessions_[worker], std::move(health)});
}

Result Scene::Still(const std::string& worker, const std::string& job,
                    const std::map<int32_t, RankPosition>& ranks, std::optional<Epoch> epoch) {
  RankPositions event{.worker = worker, .session = sessions_[worker], .ranks = {}};
  for (const auto& [rank, position] : ranks) {
    event.ranks.push_back({.job_uid = absl::StrCat("uid-", job),
                           .epoch = epoch.value_or(Copy(job).epoch),
                           .rank = Rank::Of(rank),
                           .position = position});
  }
  Result result = Do(event);
  if (result.status.ok()) Do(Tick{});  // which compares positions
  return result;
}

RankReported Scene::MakeReport(const std::string& job_id, int32_t rank,
                               decltype(RankReported::report) report, int64_t sequence) const {
  const JobRecord job = Copy(job_id);
  const auto index = static_cast<size_t>(rank);
  const std::string worker = index < job.ranks.size() ? job.ranks[index].worker : "nobody";
  const auto session = sessions_.find(worker);
  return {.worker = worker,
          .session = session == sessions_.end() ? 0 : session->second,
          .job_uid = absl::StrCat("uid-", job_id),
          .epoch = job.epoch,
          .rank = Rank::Of(rank),
          .sequence = sequence,
          .report = std::move(report)};
}

Result Scene::Report(const std::string& job, int32_t rank, decltype(RankReported::report) report) {
  std::vector<RankReported>& sent = reports_[{job, Copy(job).epoch, rank}];
  sent.push_back(MakeReport(job, rank, std::move(report), static_cast<int64_t>(sent.size()) + 1));
  return Do(sent.back());
}

Result Scene::Report(RankReported report) { return Do(report); }

void Scene::Replay(const std::string& job, int32_t rank, int64_t first) {
  for (RankReported report : reports_[{job, Copy(job).epoch, rank}]) {
    if (report.sequence < first) continue;
    report.session = sessions_[report.worker];
    Do(report);
  }
}

void Scene::Advance(absl::Duration duration, const std::vector<std::string>& alive) {
  now_ += duration;
  for (const std::string& worker : alive) Heartbeat(worker);
  Do(Tick{});
}

void Scene::Restart() {
  Snapshot snapshot = *faulty_.Load();
  auto core = Core::Restore(std::move(snapshot), options_, now());
  STRETTO_CHECK(core.ok());
  driver_ = std::make_unique<Driver>(*std::move(core), *this, *this);
  sessions_.clear();
  Do(Tick{});  // its clock of leases begins
}

void Scene::Prepare(const std::string& id) {
  for (int32_t rank = 0; rank < Copy(id).world_size(); ++rank) Report(id, rank, RankPrepared{now_});
}

Result Scene::Exit(const std::string& job, int32_t rank, RankExited exit) {
  exit.time = now_;
  return Report(job, rank, std::move(exit));
}

void Scene::Complete(const std::string& id) {
  for (int32_t rank = 0; rank < Copy(id).world_size(); ++rank) Exit(id, rank, Completed());
}

JobRecord Scene::Copy(const std::string& id) const {
  return driver_->Read([&id](const Core& core) {
    const JobRecord* job = core.FindJob(id);
    return job == nullptr ? JobRecord() : *job;
  });
}

std::string Scene::Why(const std::string& id) const {
  return driver_->Read([&id](const Core& core) {
    const JobRecord shown = QueueView(core).Shown(*core.FindJob(id));
    const Condition* scheduled = shown.FindCondition("Scheduled");
    return absl::StrCat(scheduled->reason, ": ", scheduled->message);
  });
}

std::string Scene::EventsOf(const std::string& id) const {
  std::string text;
  for (const JobEvent& event : Copy(id).events.events()) {
    absl::StrAppend(&text, JobStateName(event.state), " ", event.reason);
    if (event.count > 1) absl::StrAppend(&text, " (x", event.count, ")");
    if (!event.caller.empty()) absl::StrAppend(&text, " by ", event.caller);
    absl::StrAppend(&text, event.message.empty() ? "" : ": ", event.message, "\n");
  }
  return text;
}

std::string Scene::TakeText() {
  std::string text;
  for (const std::string& line : TakeLog()) absl::StrAppend(&text, line, "\n");
  return text;
}

absl::Status Scene::Commit(const std::vector<Record>& records) {
  const absl::Status stored = faulty_.Commit(records);
  for (const Record& record : records) {
    log_.push_back(absl::StrCat(stored.ok() ? "persist " : "persist fails: ",
                                std::visit([](const auto& r) { return Text(r); }, record)));
  }
  return stored;
}

void Scene::SendToWorker(const Send& send) {
  log_.push_back(absl::StrCat("send ", send.worker, " ",
                              std::visit([](const auto& m) { return Text(m); }, send.message)));
}

void Scene::JobChanged(const JobRecord& job) {
  std::vector<Condition>& before = conditions_[job.id];
  for (const Condition& condition : job.conditions) {
    bool known = false;
    for (const Condition& old : before) known |= old == condition;
    if (known) continue;
    log_.push_back(absl::StrCat("watch ", job.id, " ", condition.type, "=", Text(condition.status),
                                " ", condition.reason, condition.message.empty() ? "" : ": ",
                                condition.message));
  }
  before = job.conditions;
}

void Scene::JobDeleted(const ErasedJob& job) {
  log_.push_back(absl::StrCat("watch ", job.id, " deleted"));
}

void Scene::WorkerChanged(const Worker&) {}

std::string Scene::FinalSummary(const JobRecord& job) {
  return absl::StrCat(job.retire_time ? "short summary of " : "summary of ", job.id);
}

}  // namespace stretto::coordinator::testing

// SPDX-License-Identifier: Apache-2.0

// Converts field by field in both directions: core to wire (ToProto, Fill) and wire to core
// (FromProto). Enums of the core have the numbers of those on the wire, so they are cast. The only
// error is a report of no known kind.

#include "coordinator/service/convert.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "coordinator/placement/placement.h"
#include "proto/reporting/dropped_reports.h"
#include "proto/spec/job/layouts.h"

namespace stretto::service {
namespace {

using coordinator::RankReported;
using v1alpha1::CoordinatorMessage;

static_assert(coordinator::kGpuKind == v1alpha1::DEVICE_CUDA);

void Fill(const coordinator::SendRegistered& from, CoordinatorMessage* to) {
  auto* registered = to->mutable_registered();
  *registered->mutable_lease() = ToProto(from.lease);
  *registered->mutable_heartbeat_interval() = ToProto(from.heartbeat_interval);
  registered->set_cluster_id(from.cluster_id);
  *registered->mutable_end_grace() = ToProto(from.end_grace);
  for (const coordinator::HeldRankReply& held : from.held) {
    auto* reply = registered->add_held();
    reply->set_job_uid(held.job_uid);
    reply->set_epoch(held.epoch.value());
    reply->set_rank(held.rank.value());
    reply->set_keep(held.keep);
    reply->set_acked_sequence(held.acked_sequence);
  }
}

void Fill(const coordinator::SendAssign& from, CoordinatorMessage* to) {
  auto* assign = to->mutable_assign();
  assign->set_job_id(from.job_id);
  assign->set_job_uid(from.job_uid);
  assign->set_epoch(from.epoch.value());
  v1alpha1::JobSpec spec;
  spec.ParseFromString(from.spec);
  *assign->mutable_spec() = spec::WithLayout(spec, from.layout);
  assign->set_world_size(from.world_size);
  for (const coordinator::AssignedRank& rank : from.ranks) {
    auto* slot = assign->add_ranks();
    slot->set_rank(rank.rank.value());
    slot->set_slot(rank.slot);
  }
  *assign->mutable_create_time() = ToProto(from.create_time);
  assign->set_attempt(from.attempt);
  assign->set_saved_step(from.saved_step);
}

void Fill(const coordinator::SendStop& from, CoordinatorMessage* to) {
  auto* stop = to->mutable_stop();
  stop->set_job_id(from.job_id);
  stop->set_job_uid(from.job_uid);
  stop->set_epoch(from.epoch.value());
  stop->set_reason(from.reason);
  *stop->mutable_grace() = ToProto(from.grace);
  stop->set_checkpoint(from.checkpoint);
}

void Fill(const coordinator::SendSave& from, CoordinatorMessage* to) {
  auto* save = to->mutable_save();
  save->set_job_uid(from.job_uid);
  save->set_epoch(from.epoch.value());
  save->set_request(from.request);
}

void Fill(const coordinator::SendAck& from, CoordinatorMessage* to) {
  auto* ack = to->mutable_ack();
  ack->set_job_uid(from.job_uid);
  ack->set_epoch(from.epoch.value());
  ack->set_rank(from.rank.value());
  ack->set_sequence(from.sequence);
}

void Fill(const coordinator::CloseSession&, CoordinatorMessage*) {}

coordinator::RankExited Exited(const v1alpha1::RankExit& exit) {
  coordinator::RankExited event;
  event.exit_code = exit.exit_code();
  event.signal = exit.signal();
  event.reason = exit.reason();
  event.message = exit.message();
  event.step = exit.step();
  event.phase = exit.phase();
  event.last_operation = exit.last_operation();
  event.time = FromProto(exit.time());
  event.stopped_by_daemon = exit.stopped_by_daemon();
  return event;
}

// In what is left of a step, a rank may have waited for others.
coordinator::StepTimes TimesOf(const v1alpha1::StepReport& step) {
  coordinator::StepTimes times{
      .own = 0, .wall = step.wall_seconds(), .preempted = step.ledger().preempted_seconds()};
  for (const v1alpha1::Ledger::Entry& entry : step.ledger().entries()) {
    if (entry.part() == v1alpha1::Ledger::COMPUTE_HIDING ||
        entry.part() == v1alpha1::Ledger::COMPUTE_ALONE ||
        entry.part() == v1alpha1::Ledger::DATA_WAIT) {
      times.own += entry.seconds();
    }
  }
  return times;
}

void FillConditions(const coordinator::JobRecord& record, v1alpha1::Job* job) {
  for (const coordinator::Condition& from : record.conditions) {
    auto* condition = job->add_conditions();
    condition->set_type(from.type);
    condition->set_status(static_cast<v1alpha1::Condition::Status>(from.status));
    condition->set_reason(from.reason);
    condition->set_message(from.message);
    *condition->mutable_last_transition_time() = ToProto(from.last_transition_time);
  }
}

void FillPlacement(const coordinator::JobRecord& record, v1alpha1::Job* job) {
  for (size_t rank = 0; rank < record.ranks.size(); ++rank) {
    auto* placement = job->add_placement();
    placement->set_rank(static_cast<int32_t>(rank));
    placement->set_worker(absl::StrCat("workers/", record.ranks[rank].worker));
    placement->set_slot(record.ranks[rank].slot);
  }
}

void FillFailure(const coordinator::FirstFailure& from, v1alpha1::FirstFailure* failure) {
  failure->set_rank(from.rank);
  failure->set_worker(absl::StrCat("workers/", from.worker));
  failure->set_exit_code(from.exit_code);
  failure->set_signal(from.signal);
  failure->set_step(from.step);
  failure->set_phase(from.phase);
  failure->set_last_operation(from.last_operation);
  failure->set_message(from.message);
  *failure->mutable_time() = ToProto(from.time);
}

void FillAttempts(const coordinator::JobRecord& record, v1alpha1::Job* job) {
  for (const coordinator::AttemptRecord& from : record.attempts) {
    auto* attempt = job->add_attempts();
    attempt->set_number(from.number);
    attempt->set_epoch(from.epoch.value());
    for (const std::string& id : from.workers) attempt->add_workers(absl::StrCat("workers/", id));
    *attempt->mutable_start_time() = ToProto(from.start_time);
    if (from.end_time) *attempt->mutable_end_time() = ToProto(*from.end_time);
    attempt->set_steps(from.end_time ? from.steps : record.steps_done());
    attempt->set_layout(from.layout);
    attempt->set_cause(static_cast<v1alpha1::RestartSpec::Cause>(from.cause));
    if (from.first_failure) FillFailure(*from.first_failure, attempt->mutable_first_failure());
  }
  job->set_restarts(record.restarts);
  if (record.next_attempt_time) {
    *job->mutable_next_attempt_time() = ToProto(*record.next_attempt_time);
  }
}

// What is still known of the spec of a retired job.
void FillRetired(const coordinator::JobRecord& record, v1alpha1::Job* job) {
  *job->mutable_retire_time() = ToProto(*record.retire_time);
  v1alpha1::JobSpec& spec = *job->mutable_spec();
  spec.set_steps(record.total_steps);
  spec.set_device(static_cast<v1alpha1::Device>(record.device_kind));
  spec.mutable_queue()->set_priority(record.priority);
  spec.mutable_queue()->set_project(record.project);
}

}  // namespace

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp proto;
  const int64_t seconds = absl::ToUnixSeconds(time);
  proto.set_seconds(seconds);
  proto.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return proto;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  absl::Duration rest;
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

v1alpha1::Job ToProto(const coordinator::JobRecord& record) {
  v1alpha1::Job job;
  job.set_name(absl::StrCat("jobs/", record.id));
  job.set_uid(record.uid);
  job.set_owner(record.owner);
  job.mutable_spec()->ParseFromString(record.spec);
  job.set_state(static_cast<v1alpha1::Job::State>(record.state));
  FillConditions(record, &job);
  *job.mutable_create_time() = ToProto(record.create_time);
  if (record.start_time) *job.mutable_start_time() = ToProto(*record.start_time);
  if (record.end_time) *job.mutable_end_time() = ToProto(*record.end_time);
  if (record.retire_time) FillRetired(record, &job);
  job.set_attempt(record.attempt);
  job.set_epoch(record.epoch.value());
  FillPlacement(record, &job);
  if (record.first_failure) FillFailure(*record.first_failure, job.mutable_first_failure());
  FillAttempts(record, &job);
  if (record.submit_to_first_operation) {
    *job.mutable_submit_to_first_operation() = ToProto(*record.submit_to_first_operation);
  }
  if (record.submit_to_first_step) {
    *job.mutable_submit_to_first_step() = ToProto(*record.submit_to_first_step);
  }
  return job;
}

v1alpha1::JobEvent ToProto(const coordinator::JobEvent& event) {
  v1alpha1::JobEvent proto;
  proto.set_number(event.number);
  *proto.mutable_time() = ToProto(event.time);
  proto.set_state(static_cast<v1alpha1::Job::State>(event.state));
  proto.set_reason(event.reason);
  proto.set_message(event.message);
  proto.set_caller(event.caller);
  proto.set_count(event.count);
  return proto;
}

v1alpha1::Worker ToProto(const coordinator::Worker& worker, int32_t free_slots,
                         const std::vector<std::string>& job_ids) {
  const coordinator::WorkerRecord& record = worker.record;
  v1alpha1::Worker proto;
  proto.set_name(absl::StrCat("workers/", record.id));
  proto.set_uid(record.incarnation);
  proto.set_state(worker.ready() ? v1alpha1::Worker::READY : v1alpha1::Worker::LOST);
  proto.set_host(record.host);
  proto.set_build(record.build);
  proto.set_slots(static_cast<int32_t>(record.devices.size()));
  proto.set_free_slots(free_slots);
  for (const coordinator::WorkerDevice& from : record.devices) {
    auto* device = proto.add_devices();
    device->set_slot(from.slot);
    device->set_kind(static_cast<v1alpha1::Device>(from.kind));
    device->set_description(from.description);
    device->set_memory_bytes(from.memory_bytes);
    device->set_fault(from.fault);
  }
  *proto.mutable_register_time() = ToProto(record.register_time);
  if (worker.session != 0) {
    *proto.mutable_last_heartbeat_time() = ToProto(worker.last_heartbeat_time);
  }
  proto.set_cordon(record.cordon);
  for (const std::string& id : job_ids) proto.add_jobs(absl::StrCat("jobs/", id));
  return proto;
}

CoordinatorMessage ToProto(const coordinator::Send& send) {
  CoordinatorMessage message;
  std::visit([&message](const auto& from) { Fill(from, &message); }, send.message);
  return message;
}

coordinator::WorkerRegistered FromProto(const v1alpha1::Register& message, int64_t session) {
  coordinator::WorkerRegistered event;
  event.id = message.worker_id();
  event.incarnation = message.incarnation();
  event.host = message.host();
  event.build = message.build();
  event.session = session;
  event.cluster_id = message.cluster_id();
  event.newest_epoch = Epoch(message.newest_epoch());
  for (const v1alpha1::WorkerDevice& from : message.devices()) {
    event.devices.push_back({from.slot(), static_cast<int32_t>(from.kind()), from.description(),
                             from.memory_bytes(), from.fault()});
  }
  for (const v1alpha1::HeldRank& from : message.held()) {
    event.held.push_back({from.job_uid(), Epoch(from.epoch()), Rank::Of(from.rank()), from.alive(),
                          from.last_sequence()});
  }
  return event;
}

coordinator::WorkerHeartbeat FromProto(const v1alpha1::Heartbeat& message,
                                       const std::string& worker, int64_t session) {
  coordinator::WorkerHeartbeat event{.id = worker, .session = session};
  for (const v1alpha1::SlotHealth& from : message.health()) {
    event.health.push_back({from.slot(), from.fault()});
  }
  return event;
}

coordinator::RankPositions FromProto(const v1alpha1::RankPositions& message,
                                     const std::string& worker, int64_t session) {
  coordinator::RankPositions event{.worker = worker, .session = session, .ranks = {}};
  for (const v1alpha1::RankPosition& from : message.ranks()) {
    coordinator::RankPosition position{
        .attached = from.attached(),
        .still = absl::Milliseconds(from.still_ms()),
        .frozen = absl::Milliseconds(from.frozen_ms()),
        .step = from.step(),
        .phase = from.phase(),
        .operation = from.operation(),
        .activity = static_cast<coordinator::Activity>(from.activity())};
    for (const v1alpha1::ChannelPosition& channel : from.channels()) {
      position.channels.push_back({channel.group(), channel.begun(), channel.waiting(),
                                   channel.peer(), channel.receives()});
    }
    event.ranks.push_back({.job_uid = from.job_uid(),
                           .epoch = Epoch(from.epoch()),
                           .rank = Rank::Of(from.rank()),
                           .position = std::move(position)});
  }
  return event;
}

absl::StatusOr<RankReported> FromProto(const v1alpha1::RankReport& message,
                                       const std::string& worker, int64_t session) {
  if (const absl::Status numbers = CheckNumbers(message); !numbers.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", worker, ": rank ", message.rank(), ": ", numbers.message()));
  }
  RankReported event;
  event.worker = worker;
  event.session = session;
  event.job_uid = message.job_uid();
  event.epoch = Epoch(message.epoch());
  event.rank = Rank::Of(message.rank());
  event.sequence = message.sequence();
  event.dropped = message.dropped().reports();
  using Report = v1alpha1::RankReport;
  switch (message.report_case()) {
    case Report::kPrepared:
      event.report = coordinator::RankPrepared{FromProto(message.prepared().time()),
                                               message.prepared().resumed_inexactly(),
                                               message.prepared().decay_steps()};
      return event;
    case Report::kFirstOperation:
      event.report = coordinator::FirstOperationDone{FromProto(message.first_operation().time())};
      return event;
    case Report::kStep:
      event.report = coordinator::StepDone{
          message.step().step(), FromProto(message.step().end_time()), TimesOf(message.step())};
      return event;
    case Report::kCheckpoint:
      event.report =
          coordinator::CheckpointDone{message.checkpoint().step(), message.checkpoint().name(),
                                      message.checkpoint().ok(),   message.checkpoint().message(),
                                      message.checkpoint().best(), message.checkpoint().request()};
      return event;
    case Report::kExit:
      event.report = Exited(message.exit());
      return event;
    case Report::kProfile:
    case Report::kSamples:
      event.report = coordinator::OtherReport{};
      return event;
    case Report::kWarning:
      event.report = coordinator::RankWarned{
          message.warning().condition(), message.warning().reason(), message.warning().message()};
      return event;
    case Report::REPORT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("worker ", worker, ": report ", message.sequence(), " of rank ", message.rank(),
                   ": found no known kind, expected one of RankReport"));
}

}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0

// Each record has one writer, which names its fields, and one reader, which takes each field that
// is present. The JSON library throws on a value of another type; Decode catches that once and
// returns a DataLoss that names the object.

#include "coordinator/store/record_codec.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "coordinator/store/json_fields.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

Json FromCondition(const Condition& condition) {
  return {{"type", condition.type},
          {"status", static_cast<int>(condition.status)},
          {"reason", condition.reason},
          {"message", condition.message},
          {"time", FromTime(condition.last_transition_time)}};
}

Condition ToCondition(const Json& json) {
  Condition condition;
  Read(json, "type", &condition.type);
  ReadEnum(json, "status", &condition.status);
  Read(json, "reason", &condition.reason);
  Read(json, "message", &condition.message);
  ReadTime(json, "time", &condition.last_transition_time);
  return condition;
}

Json FromRank(const RankRecord& rank) {
  return {{"worker", rank.worker},
          {"slot", rank.slot},
          {"state", static_cast<int>(rank.state)},
          {"exit_code", rank.exit_code},
          {"signal", rank.signal},
          {"exit_reason", rank.exit_reason},
          {"last_step", rank.last_step}};
}

RankRecord ToRank(const Json& json) {
  RankRecord rank;
  Read(json, "worker", &rank.worker);
  Read(json, "slot", &rank.slot);
  ReadEnum(json, "state", &rank.state);
  Read(json, "exit_code", &rank.exit_code);
  Read(json, "signal", &rank.signal);
  Read(json, "exit_reason", &rank.exit_reason);
  Read(json, "last_step", &rank.last_step);
  return rank;
}

Json FromFailure(const FirstFailure& failure) {
  return {{"rank", failure.rank},
          {"worker", failure.worker},
          {"exit_code", failure.exit_code},
          {"signal", failure.signal},
          {"reason", failure.reason},
          {"message", failure.message},
          {"step", failure.step},
          {"phase", failure.phase},
          {"last_operation", failure.last_operation},
          {"time", FromTime(failure.time)}};
}

void ReadFailure(const Json& json, const char* key, std::optional<FirstFailure>* value) {
  const auto found = json.find(key);
  if (found == json.end()) return;
  FirstFailure failure;
  Read(*found, "rank", &failure.rank);
  Read(*found, "worker", &failure.worker);
  Read(*found, "exit_code", &failure.exit_code);
  Read(*found, "signal", &failure.signal);
  Read(*found, "reason", &failure.reason);
  Read(*found, "message", &failure.message);
  Read(*found, "step", &failure.step);
  Read(*found, "phase", &failure.phase);
  Read(*found, "last_operation", &failure.last_operation);
  ReadTime(*found, "time", &failure.time);
  *value = std::move(failure);
}

// [[blocks, size], ...]
Json FromStages(const std::vector<StageBlocks>& stages) {
  Json json = Json::array();
  for (const StageBlocks& stage : stages) json.push_back({stage.blocks, stage.size});
  return json;
}

Json FromFallbacks(const std::vector<Gang>& gangs) {
  Json json = Json::array();
  for (const Gang& gang : gangs) json.push_back(FromStages(gang.stages));
  return json;
}

void ReadGang(const Json& json, Gang* gang) {
  // Of a release that did not know blocks.
  Read(json, "world_size", &gang->stages.front().blocks);
  Read(json, "split_blocks", &gang->split_blocks);
  const auto found = json.find("stages");
  if (found == json.end()) return;
  gang->stages.clear();
  for (const Json& stage : *found) {
    gang->stages.push_back(
        {.blocks = stage.at(0).get<int32_t>(), .size = stage.at(1).get<int32_t>()});
  }
}

Json FromPolicy(const RestartPolicy& policy) {
  Json on = Json::array();
  for (RestartCause cause : policy.on) on.push_back(static_cast<int>(cause));
  return {{"max", policy.max}, {"backoff", absl::ToInt64Nanoseconds(policy.backoff)}, {"on", on}};
}

void ReadPolicy(const Json& json, std::optional<RestartPolicy>* value) {
  const auto found = json.find("restart");
  if (found == json.end()) return;
  RestartPolicy& policy = value->emplace();
  Read(*found, "max", &policy.max);
  policy.backoff = absl::Nanoseconds(found->value("backoff", int64_t{0}));
  for (const Json& cause : found->value("on", Json::array())) {
    policy.on.insert(static_cast<RestartCause>(cause.get<int>()));
  }
}

Json FromAttempt(const AttemptRecord& attempt) {
  Json json = {{"number", attempt.number},       {"epoch", attempt.epoch.value()},
               {"workers", attempt.workers},     {"start_time", FromTime(attempt.start_time)},
               {"from_step", attempt.from_step}, {"saved_step", attempt.saved_step},
               {"steps", attempt.steps},         {"cause", static_cast<int>(attempt.cause)},
               {"layout", attempt.layout}};
  if (attempt.end_time) json["end_time"] = FromTime(*attempt.end_time);
  if (attempt.first_failure) json["first_failure"] = FromFailure(*attempt.first_failure);
  return json;
}

AttemptRecord ToAttempt(const Json& json) {
  AttemptRecord attempt;
  Read(json, "number", &attempt.number);
  attempt.epoch = Epoch(json.value("epoch", int64_t{0}));
  Read(json, "workers", &attempt.workers);
  ReadTime(json, "start_time", &attempt.start_time);
  ReadTime(json, "end_time", &attempt.end_time);
  Read(json, "from_step", &attempt.from_step);
  Read(json, "saved_step", &attempt.saved_step);
  Read(json, "steps", &attempt.steps);
  Read(json, "layout", &attempt.layout);
  ReadEnum(json, "cause", &attempt.cause);
  ReadFailure(json, "first_failure", &attempt.first_failure);
  return attempt;
}

Json FromEvent(const JobEvent& event) {
  Json json = {{"number", event.number},
               {"time", FromTime(event.time)},
               {"state", static_cast<int>(event.state)},
               {"reason", event.reason},
               {"message", event.message},
               {"count", event.count}};
  if (!event.caller.empty()) json["caller"] = event.caller;
  return json;
}

JobEvent ToEvent(const Json& json) {
  JobEvent event;
  Read(json, "number", &event.number);
  ReadTime(json, "time", &event.time);
  ReadEnum(json, "state", &event.state);
  Read(json, "reason", &event.reason);
  Read(json, "message", &event.message);
  Read(json, "caller", &event.caller);
  Read(json, "count", &event.count);
  return event;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void ReadJob(const Json& json, JobRecord* job) {
  ReadGang(json, &job->gang);
  for (const Json& stages : json.value("layouts", Json::array())) {
    Gang& gang = job->fallbacks.emplace_back();
    ReadGang(Json{{"stages", stages}, {"split_blocks", job->gang.split_blocks}}, &gang);
  }
  Read(json, "layout", &job->layout);
  Read(json, "device_kind", &job->device_kind);
  Read(json, "total_steps", &job->total_steps);
  Read(json, "priority", &job->priority);
  Read(json, "project", &job->project);
  Read(json, "labels", &job->labels);
  Read(json, "owner", &job->owner);
  job->saves = json.value("saves", false);  // older releases did not store it, so none is risked
  Read(json, "request_id", &job->request_id);
  ReadEnum(json, "state", &job->state);
  for (const Json& condition : json.value("conditions", Json::array())) {
    job->conditions.push_back(ToCondition(condition));
  }
  ReadTime(json, "create_time", &job->create_time);
  ReadTime(json, "start_time", &job->start_time);
  ReadTime(json, "end_time", &job->end_time);
  ReadTime(json, "retire_time", &job->retire_time);
  Read(json, "attempt", &job->attempt);
  int64_t epoch = 0;
  Read(json, "epoch", &epoch);
  job->epoch = Epoch(epoch);
  for (const Json& rank : json.value("ranks", Json::array())) job->ranks.push_back(ToRank(rank));
  ReadPolicy(json, &job->restart);
  Read(json, "restarts", &job->restarts);
  for (const Json& attempt : json.value("attempts", Json::array())) {
    job->attempts.push_back(ToAttempt(attempt));
  }
  ReadTime(json, "next_attempt_time", &job->next_attempt_time);
  ReadTime(json, "suspend_time", &job->suspend_time);
  job->paused = absl::Nanoseconds(json.value("paused", int64_t{0}));
  Read(json, "preempted_by", &job->preempted_by);
  Read(json, "stop_reason", &job->stop_reason);
  Read(json, "stop_with_checkpoint", &job->stop_with_checkpoint);
  ReadFailure(json, "first_failure", &job->first_failure);
  ReadFailure(json, "suspect", &job->suspect);
  Read(json, "last_checkpoint", &job->last_checkpoint);
  Read(json, "best_checkpoint", &job->best_checkpoint);
  Read(json, "last_checkpoint_step", &job->last_checkpoint_step);
  Read(json, "checkpoint_request", &job->checkpoint_request);
  ReadDuration(json, "submit_to_first_operation", &job->submit_to_first_operation);
  ReadDuration(json, "submit_to_first_step", &job->submit_to_first_step);
  std::vector<JobEvent> events;
  for (const Json& event : json.value("events", Json::array())) events.push_back(ToEvent(event));
  job->events.Set(std::move(events));
}

void ReadWorker(const Json& json, WorkerRecord* worker) {
  Read(json, "incarnation", &worker->incarnation);
  Read(json, "host", &worker->host);
  Read(json, "build", &worker->build);
  for (const Json& device : json.value("devices", Json::array())) {
    WorkerDevice& added = worker->devices.emplace_back();
    Read(device, "slot", &added.slot);
    Read(device, "kind", &added.kind);
    Read(device, "description", &added.description);
    Read(device, "memory_bytes", &added.memory_bytes);
    Read(device, "fault", &added.fault);
  }
  ReadEnum(json, "state", &worker->state);
  ReadTime(json, "register_time", &worker->register_time);
  Read(json, "cordon", &worker->cordon);
  for (const Json& fault : json.value("faults", Json::array())) {
    worker->faults.push_back(ToTime(fault));
  }
}

// Returns Ok if `value` is one of `first` to `last`, all values of its enum that this build knows.
template <class E>
absl::Status CheckKnown(const std::string& object, const char* key, E value, E last,
                        E first = E{1}) {
  const int number = static_cast<int>(value);
  if (number >= static_cast<int>(first) && number <= static_cast<int>(last))
    return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "stored ", object, ": ", key, ": found ", number, ", expected ", static_cast<int>(first),
      " to ", static_cast<int>(last), "; a newer release may have written it"));
}

// Runs `read` on the parsed body and turns everything nlohmann throws into a status.
template <class F>
absl::Status Decode(const std::string& body, const std::string& object, F read) {
  // Of a number beyond 64 bits the library makes one with a fraction, and its conversion to an
  // integer has no defined result.
  bool fraction = false;
  const auto watch = [&fraction](int, Json::parse_event_t event, const Json& value) {
    fraction |= event == Json::parse_event_t::value && value.is_number_float();
    return true;
  };
  try {
    const Json json = Json::parse(body, watch);
    if (fraction) {
      return absl::DataLossError(
          absl::StrCat("stored ", object, ": found a number that is no integer of 64 bits"));
    }
    read(json);
  } catch (const Json::exception& error) {
    return absl::DataLossError(absl::StrCat("stored ", object, " does not parse: ", error.what()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeJobBody(const JobRecord& job) {
  Json json = {{"stages", FromStages(job.gang.stages)},
               {"split_blocks", job.gang.split_blocks},
               {"device_kind", job.device_kind},
               {"total_steps", job.total_steps},
               {"priority", job.priority},
               {"project", job.project},
               {"saves", job.saves},
               {"request_id", job.request_id},
               {"state", static_cast<int>(job.state)},
               {"create_time", FromTime(job.create_time)},
               {"attempt", job.attempt},
               {"epoch", job.epoch.value()},
               {"restarts", job.restarts},
               {"preempted_by", job.preempted_by},
               {"stop_reason", job.stop_reason},
               {"stop_with_checkpoint", job.stop_with_checkpoint},
               {"last_checkpoint", job.last_checkpoint},
               {"best_checkpoint", job.best_checkpoint},
               {"last_checkpoint_step", job.last_checkpoint_step}};
  if (!job.owner.empty()) json["owner"] = job.owner;
  for (const Condition& condition : job.conditions) {
    json["conditions"].push_back(FromCondition(condition));
  }
  for (const RankRecord& rank : job.ranks) json["ranks"].push_back(FromRank(rank));
  for (const JobEvent& event : job.events.events()) json["events"].push_back(FromEvent(event));
  if (job.restart) json["restart"] = FromPolicy(*job.restart);
  if (!job.fallbacks.empty()) json["layouts"] = FromFallbacks(job.fallbacks);
  if (!job.labels.empty()) json["labels"] = job.labels;
  if (job.layout != 0) json["layout"] = job.layout;
  if (job.checkpoint_request != 0) json["checkpoint_request"] = job.checkpoint_request;
  for (const AttemptRecord& attempt : job.attempts) {
    json["attempts"].push_back(FromAttempt(attempt));
  }
  if (job.next_attempt_time) json["next_attempt_time"] = FromTime(*job.next_attempt_time);
  if (job.suspend_time) json["suspend_time"] = FromTime(*job.suspend_time);
  if (job.paused > absl::ZeroDuration()) json["paused"] = absl::ToInt64Nanoseconds(job.paused);
  if (job.start_time) json["start_time"] = FromTime(*job.start_time);
  if (job.end_time) json["end_time"] = FromTime(*job.end_time);
  if (job.retire_time) json["retire_time"] = FromTime(*job.retire_time);
  if (job.first_failure) json["first_failure"] = FromFailure(*job.first_failure);
  if (job.suspect) json["suspect"] = FromFailure(*job.suspect);
  if (job.submit_to_first_operation) {
    json["submit_to_first_operation"] = absl::ToInt64Nanoseconds(*job.submit_to_first_operation);
  }
  if (job.submit_to_first_step) {
    json["submit_to_first_step"] = absl::ToInt64Nanoseconds(*job.submit_to_first_step);
  }
  return Dump(json);
}

absl::Status DecodeJobBody(const std::string& body, JobRecord* job) {
  const std::string object = absl::StrCat("job \"", job->id, "\"");
  RETURN_IF_ERROR(Decode(body, object, [job](const Json& json) { ReadJob(json, job); }));
  for (const Condition& condition : job->conditions) {
    RETURN_IF_ERROR(
        CheckKnown(object, "status of a condition", condition.status, ConditionStatus::kUnknown));
  }
  for (const RankRecord& rank : job->ranks) {
    RETURN_IF_ERROR(CheckKnown(object, "state of a rank", rank.state, RankState::kLost));
  }
  for (const AttemptRecord& attempt : job->attempts) {
    RETURN_IF_ERROR(CheckKnown(object, "cause of an attempt's end", attempt.cause,
                               RestartCause::kPreemption, RestartCause::kNone));
  }
  const auto layouts = static_cast<int32_t>(job->fallbacks.size());
  if (job->layout < 0 || job->layout > layouts) {
    return absl::DataLossError(absl::StrCat("stored ", object, ": layout: found ", job->layout,
                                            ", expected 0 to ", layouts));
  }
  for (const JobEvent& event : job->events.events()) {
    RETURN_IF_ERROR(CheckKnown(object, "state of an event", event.state, JobState::kSuspended));
  }
  for (RestartCause cause : job->restart ? job->restart->on : std::set<RestartCause>()) {
    RETURN_IF_ERROR(CheckKnown(object, "cause of a restart", cause, RestartCause::kPreemption));
  }
  return CheckKnown(object, "state", job->state, JobState::kSuspended);
}

std::string EncodeWorkerBody(const WorkerRecord& worker) {
  Json json = {{"incarnation", worker.incarnation},
               {"host", worker.host},
               {"build", worker.build},
               {"state", static_cast<int>(worker.state)},
               {"register_time", FromTime(worker.register_time)},
               {"cordon", worker.cordon}};
  for (absl::Time fault : worker.faults) json["faults"].push_back(FromTime(fault));
  for (const WorkerDevice& device : worker.devices) {
    json["devices"].push_back({{"slot", device.slot},
                               {"kind", device.kind},
                               {"description", device.description},
                               {"memory_bytes", device.memory_bytes},
                               {"fault", device.fault}});
  }
  return Dump(json);
}

absl::Status DecodeWorkerBody(const std::string& body, WorkerRecord* worker) {
  const std::string object = absl::StrCat("worker \"", worker->id, "\"");
  RETURN_IF_ERROR(Decode(body, object, [worker](const Json& json) { ReadWorker(json, worker); }));
  return CheckKnown(object, "state", worker->state, WorkerState::kLost);
}

}  // namespace stretto::coordinator

// SPDX-License-Identifier: Apache-2.0

// Each record has one writer, which names its fields, and one reader, which takes each field that
// is present. The JSON library throws on a value of another type; Decode catches that once and
// returns a DataLoss that names the object.

#include "coordinator/store/record_codec.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"

namespace stretto::coordinator {
namespace {

using Json = nlohmann::json;

Json FromTime(absl::Time time) { return absl::ToUnixNanos(time); }
absl::Time ToTime(const Json& json) { return absl::FromUnixNanos(json.get<int64_t>()); }

// nlohmann throws on a value of another type; the caller catches it.
template <class T>
void Read(const Json& json, const char* key, T* value) {
  if (const auto found = json.find(key); found != json.end()) *value = found->get<T>();
}

template <class E>
void ReadEnum(const Json& json, const char* key, E* value) {
  if (const auto found = json.find(key); found != json.end()) {
    *value = static_cast<E>(found->get<int>());
  }
}

void ReadTime(const Json& json, const char* key, absl::Time* value) {
  if (const auto found = json.find(key); found != json.end()) *value = ToTime(*found);
}

void ReadTime(const Json& json, const char* key, std::optional<absl::Time>* value) {
  if (const auto found = json.find(key); found != json.end()) *value = ToTime(*found);
}

void ReadDuration(const Json& json, const char* key, std::optional<absl::Duration>* value) {
  if (const auto found = json.find(key); found != json.end()) {
    *value = absl::Nanoseconds(found->get<int64_t>());
  }
}

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

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void ReadJob(const Json& json, JobRecord* job) {
  ReadGang(json, &job->gang);
  Read(json, "device_kind", &job->device_kind);
  Read(json, "total_steps", &job->total_steps);
  Read(json, "request_id", &job->request_id);
  ReadEnum(json, "state", &job->state);
  for (const Json& condition : json.value("conditions", Json::array())) {
    job->conditions.push_back(ToCondition(condition));
  }
  ReadTime(json, "create_time", &job->create_time);
  ReadTime(json, "start_time", &job->start_time);
  ReadTime(json, "end_time", &job->end_time);
  Read(json, "attempt", &job->attempt);
  int64_t epoch = 0;
  Read(json, "epoch", &epoch);
  job->epoch = Epoch(epoch);
  for (const Json& rank : json.value("ranks", Json::array())) job->ranks.push_back(ToRank(rank));
  Read(json, "stop_reason", &job->stop_reason);
  ReadFailure(json, "first_failure", &job->first_failure);
  ReadFailure(json, "suspect", &job->suspect);
  Read(json, "last_checkpoint", &job->last_checkpoint);
  Read(json, "last_checkpoint_step", &job->last_checkpoint_step);
  ReadDuration(json, "submit_to_first_operation", &job->submit_to_first_operation);
  ReadDuration(json, "submit_to_first_step", &job->submit_to_first_step);
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
  ReadTime(json, "lease_end", &worker->lease_end);
}

// Runs `read` on the parsed body and turns everything nlohmann throws into a status.
template <class F>
absl::Status Decode(const std::string& body, const std::string& object, F read) {
  try {
    read(Json::parse(body));
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
               {"request_id", job.request_id},
               {"state", static_cast<int>(job.state)},
               {"create_time", FromTime(job.create_time)},
               {"attempt", job.attempt},
               {"epoch", job.epoch.value()},
               {"stop_reason", job.stop_reason},
               {"last_checkpoint", job.last_checkpoint},
               {"last_checkpoint_step", job.last_checkpoint_step}};
  for (const Condition& condition : job.conditions) {
    json["conditions"].push_back(FromCondition(condition));
  }
  for (const RankRecord& rank : job.ranks) json["ranks"].push_back(FromRank(rank));
  if (job.start_time) json["start_time"] = FromTime(*job.start_time);
  if (job.end_time) json["end_time"] = FromTime(*job.end_time);
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
  return Decode(body, absl::StrCat("job \"", job->id, "\""),
                [job](const Json& json) { ReadJob(json, job); });
}

std::string EncodeWorkerBody(const WorkerRecord& worker) {
  Json json = {{"incarnation", worker.incarnation},
               {"host", worker.host},
               {"build", worker.build},
               {"state", static_cast<int>(worker.state)},
               {"register_time", FromTime(worker.register_time)},
               {"lease_end", FromTime(worker.lease_end)}};
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
  return Decode(body, absl::StrCat("worker \"", worker->id, "\""),
                [worker](const Json& json) { ReadWorker(json, worker); });
}

}  // namespace stretto::coordinator

// SPDX-License-Identifier: Apache-2.0

// Keeps a worker's record, its newest session, and the end of its lease. Each call first checks
// that it comes from the newest session of a READY worker; only Register may begin a new session.

#include "coordinator/membership/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

absl::Status CheckRecord(const WorkerRecord& record) {
  if (!IsValidName(record.id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker id \"", record.id,
                     "\" is not a name: expected 1-63 of [a-z0-9-], starting with a letter and not "
                     "ending with '-'"));
  }
  if (record.devices.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("worker \"", record.id, "\" has no devices; expected at least 1"));
  }
  std::set<int32_t> slots;
  for (const WorkerDevice& device : record.devices) {
    if (device.slot < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "worker \"", record.id, "\" has a device at slot ", device.slot, "; expected 0 or more"));
    }
    if (!slots.insert(device.slot).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("worker \"", record.id, "\" has two devices at slot ", device.slot));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void Membership::Restore(WorkerRecord record) {
  record.state = WorkerState::kLost;
  lost_.insert(record.id);
  Worker& worker = workers_[record.id];
  worker.record = std::move(record);
  worker.lease_end = lease_;
}

absl::StatusOr<int64_t> Membership::Register(WorkerRecord record, int64_t session, Moment now) {
  STRETTO_CHECK(session > 0);
  RETURN_IF_ERROR(CheckRecord(record));
  const auto found = workers_.find(record.id);
  int64_t taken_over = 0;
  if (found != workers_.end() && found->second.ready()) {
    const WorkerRecord& live = found->second.record;
    if (live.incarnation != record.incarnation) {
      return absl::AlreadyExistsError(
          absl::StrCat("worker \"", record.id, "\" is already connected from host \"", live.host,
                       "\" (incarnation ", live.incarnation, "); refused a second one from host \"",
                       record.host, "\" (incarnation ", record.incarnation, ")"));
    }
    taken_over = found->second.session;
  }
  record.state = WorkerState::kReady;
  record.register_time = now.wall;
  if (found != workers_.end()) {
    record.cordon = found->second.record.cordon;
    record.faults = found->second.record.faults;
  }
  lost_.erase(record.id);
  Worker& worker = workers_[record.id];
  worker.record = std::move(record);
  worker.session = session;
  worker.last_heartbeat_time = now.wall;
  worker.lease_end = now.steady + lease_;
  return taken_over;
}

absl::Status Membership::Check(const std::string& id, int64_t session) const {
  const Worker* worker = Find(id);
  if (worker == nullptr) {
    return absl::NotFoundError(absl::StrCat("worker \"", id, "\" is not registered"));
  }
  if (worker->session != session) {
    return absl::AbortedError(absl::StrCat("worker \"", id, "\": session ", session,
                                           " is not the newest, ", worker->session,
                                           "; register again"));
  }
  if (!worker->ready()) {
    return absl::AbortedError(absl::StrCat("worker \"", id, "\" is LOST; register again"));
  }
  return absl::OkStatus();
}

absl::Status Membership::Heartbeat(const std::string& id, int64_t session, Moment now) {
  RETURN_IF_ERROR(Check(id, session));
  Worker& worker = workers_.at(id);
  worker.last_heartbeat_time = now.wall;
  worker.lease_end = now.steady + lease_;
  return absl::OkStatus();
}

void Membership::Renew(const std::string& id, absl::Duration steady) {
  const auto found = workers_.find(id);
  if (found != workers_.end()) found->second.lease_end = steady + lease_;
}

absl::StatusOr<std::vector<WorkerDevice>> Membership::DevicesWith(
    const std::string& id, const std::vector<SlotHealth>& health) const {
  std::vector<WorkerDevice> devices = workers_.at(id).record.devices;
  for (const SlotHealth& slot : health) {
    const auto device = std::find_if(devices.begin(), devices.end(),
                                     [&](const auto& d) { return d.slot == slot.slot; });
    if (device == devices.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("worker \"", id, "\" tells the health of slot ", slot.slot,
                       "; expected one of the ", devices.size(), " it has registered"));
    }
    device->fault = slot.fault;
  }
  return devices;
}

void Membership::SetCordon(const std::string& id, const std::string& reason) {
  workers_.at(id).record.cordon = reason;
}

void Membership::SetFaults(const std::string& id, std::vector<absl::Time> faults) {
  workers_.at(id).record.faults = std::move(faults);
}

void Membership::SetDevices(const std::string& id, std::vector<WorkerDevice> devices) {
  workers_.at(id).record.devices = std::move(devices);
}

std::vector<std::string> Membership::Overdue(absl::Duration steady) const {
  std::vector<std::string> overdue;
  for (const auto& [id, worker] : workers_) {
    if (worker.ready() && steady >= worker.lease_end) overdue.push_back(id);
  }
  return overdue;
}

void Membership::Lose(const std::string& id) {
  workers_.at(id).record.state = WorkerState::kLost;
  lost_.insert(id);
}

void Membership::Reset(const std::string& id, std::optional<Worker> value) {
  lost_.erase(id);
  if (value.has_value()) {
    if (!value->ready()) lost_.insert(id);
    workers_[id] = *std::move(value);
  } else {
    workers_.erase(id);
  }
}

const Worker* Membership::Find(const std::string& id) const {
  const auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : &found->second;
}

}  // namespace stretto::coordinator

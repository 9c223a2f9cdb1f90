// SPDX-License-Identifier: Apache-2.0

// Constructs the parts, and then only routes: calls of the session go to the supervisor, the relay
// and the logs; calls of the trainers' service go to the supervisor and the relay. Parts that exist
// before the session wake it through `awake_`, an atomic pointer that is set once the session
// exists.

#include "worker/daemon/daemon.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "proto/base/address.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"
#include "proto/base/version.h"
#include "proto/bounds/worker_bounds.h"
#include "proto/tls/explain.h"
#include "spdlog/spdlog.h"
#include "worker/daemon/daemon_options.h"
#include "worker/daemon/rights/trainer_user.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;
using google::protobuf::util::TimeUtil;

// How long a stopping daemon waits for the coordinator to acknowledge its last reports.
constexpr std::chrono::seconds kFarewell{2};
// Additional time after the grace for the kernel to end killed processes.
constexpr absl::Duration kReapTime = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(DaemonOptions options, const Clock& clock) {
  std::unique_ptr<Nvml> nvml = OpenGpus(options.nvml_library);
  ASSIGN_OR_RETURN(Node node,
                   ProbeNode(options.slots, nvml != nullptr ? nvml->Read() : std::vector<Gpu>{}));
  if (!options.host.empty()) node.host = options.host;
  if (options.name.empty()) options.name = NameFromHost(node.host);
  RETURN_IF_ERROR(CompleteOptions(&options));
  ASSIGN_OR_RETURN(FileDescriptor lock, LockStateDir(options.state_dir));
  ASSIGN_OR_RETURN(PreparedRights rights, RightsOf(options, node.slots.size()));
  std::unique_ptr<Daemon> daemon(
      new Daemon(std::move(options), std::move(rights), std::move(nvml), std::move(node), clock));
  daemon->lock_ = std::move(lock);
  RETURN_IF_ERROR(daemon->Open());
  return daemon;
}

Daemon::Daemon(DaemonOptions options, PreparedRights rights, std::unique_ptr<Nvml> nvml, Node node,
               const Clock& clock)
    : options_(std::move(options)),
      rights_(std::move(rights)),
      clock_(clock),
      gpus_(std::move(nvml), clock),
      node_(std::move(node)),
      incarnation_(NewUid()),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      folders_(options_.state_dir),
      metrics_({.worker = options_.name,
                .retention = options_.metrics_retention,
                .gpus = [this] { return gpus_.Gpus(); },
                .trainers = [this] { return supervisor_.Memory(); },
                .certificates = [this] { return tls::ReadLifetimes(options_.tls); }},
               clock),
      relay_([this](const v1::RankReport& report) { metrics_.Record(report); }, [this] { Wake(); }),
      supervisor_({.trainer_binary = options_.trainer_binary,
                   .socket_path = SocketPath(options_),
                   .slots = node_.slots,
                   .interface_address = options_.interface_address,
                   .rights = &rights_,
                   .fault = [this](const Slot& slot) { return FaultOf(slot, gpus_.Gpus()); },
                   .grace = options_.stop_grace,
                   .max_log_bytes = options_.max_log_bytes},
                  folders_, relay_, clock, [this](int alive) { metrics_.SetTrainers(alive); }),
      logs_(
          folders_, [this](const RankKey& key) { return supervisor_.Alive(key); },
          [this] { Wake(); }),
      inspector_({.trainer_binary = options_.trainer_binary,
                  .folder = options_.state_dir + "/inspection",
                  .roots = Roots(),
                  .rights = &rights_},
                 [this] { Wake(); }) {}

void Daemon::Wake() {
  if (CoordinatorLink* link = awake_) link->Wake();
}

absl::Status Daemon::Open() {
  if (!options_.join_new_cluster) {
    ASSIGN_OR_RETURN(membership_, ReadMembership(options_.state_dir));
  }
  ASSIGN_OR_RETURN(monitoring_,
                   monitoring::MonitoringServer::Start(
                       options_.metrics_listen, {.metrics = [this] { return metrics_.Text(); },
                                                 .ready = [this] { return Ready(); }}));
  // Before the socket opens: a trainer that reconnects is rejected unless it is known.
  supervisor_.Adopt();
  ASSIGN_OR_RETURN(const std::vector<std::string> addresses,
                   ParseAddressList(options_.coordinator));
  coordinators_ = std::make_unique<CoordinatorChannels>(addresses, options_.tls);
  ASSIGN_OR_RETURN(trainers_, TrainerService::Start(SocketPath(options_), *this, *coordinators_));
  RETURN_IF_ERROR(ShareSocket(rights_.rights, SocketPath(options_)));
  SessionHandler& handler = *this;
  link_ = std::make_unique<CoordinatorLink>(
      *coordinators_, handler, std::hash<std::string>()(incarnation_),
      [this] { return tls::ExplainFailure(coordinators_->address(), options_.tls); });
  awake_ = link_.get();
  // Adopted ranks may have reports since before the link existed.
  link_->Wake();
  return absl::OkStatus();
}

Daemon::~Daemon() {
  monitoring_.reset();  // uses every part that is destroyed below
  if (link_ != nullptr) link_->Stop();
  if (trainers_ != nullptr) trainers_->Shutdown();
}

void Daemon::Signal() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof(one));
}

absl::Status Daemon::Ready() const {
  const MutexLock lock(mu_);
  if (connected_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("worker ", options_.name,
                                             " is not registered with the coordinator at ",
                                             options_.coordinator));
}

std::optional<absl::Status> Daemon::refusal() const {
  const MutexLock lock(mu_);
  return refusal_;
}

void Daemon::StopTrainers() {
  stopping_ = true;
  const std::string reason = absl::StrCat("worker ", options_.name, " is shutting down");
  supervisor_.StopAll(options_.stop_grace, reason, [&](const RankKey& key) {
    return trainers_->RequestStop(key, /*checkpoint=*/true, reason);
  });
  supervisor_.WaitUntilEmpty(options_.stop_grace + kReapTime);
  const MutexLock lock(mu_);
  acked_.WaitFor(mu_, kFarewell, [this]() REQUIRES(mu_) { return !connected_ || relay_.Idle(); });
}

std::string Daemon::FaultOf(const Slot& slot, const std::vector<Gpu>& gpus) {
  if (slot.kind != SlotKind::kGpu) return "";
  // Without a UUID from the beginning its trainer would see other GPUs.
  if (slot.gpu_uuid.empty())
    return slot.fault.empty() ? "the driver reports no UUID for it" : slot.fault;
  return gpus[slot.gpu].fault;
}

// ---- the coordinator's side

v1::Register Daemon::Registration() {
  v1::WorkerMessage fitted;
  *fitted.mutable_register_() = Introduction();
  Fit(&fitted);
  return std::move(*fitted.mutable_register_());
}

v1::Register Daemon::Introduction() {
  v1::Register message;
  message.set_worker_id(options_.name);
  message.set_incarnation(incarnation_);
  message.set_protocol_version(kProtocolVersion);
  message.set_build(kBuildVersion);
  message.set_host(node_.host);
  const std::vector<Gpu> gpus = gpus_.Gpus();
  for (const Slot& slot : node_.slots) {
    v1::WorkerDevice* device = message.add_devices();
    device->set_slot(slot.index);
    device->set_kind(slot.kind == SlotKind::kGpu ? v1::DEVICE_CUDA : v1::DEVICE_CPU);
    device->set_description(slot.description);
    device->set_memory_bytes(slot.memory_bytes);
    device->set_fault(FaultOf(slot, gpus));
  }
  message.set_cluster_id(membership_.cluster_id);
  message.set_newest_epoch(membership_.newest_epoch);
  supervisor_.ForgetWaiting();
  offered_ = relay_.Held();
  std::stable_partition(offered_.begin(), offered_.end(),
                        [](const v1::HeldRank& held) { return held.alive(); });
  for (const v1::HeldRank& held : offered_) *message.add_held() = held;
  return message;
}

void Daemon::NoteMembership(const std::string& cluster_id, int64_t epoch) {
  const Membership now = Noted(membership_, cluster_id, epoch);
  if (now == membership_) return;
  membership_ = now;
  const absl::Status written = WriteMembership(options_.state_dir, membership_);
  if (!written.ok()) spdlog::error("cluster not noted: {}", written.ToString());
}

void Daemon::OnRegistered(const v1::Registered& registered) {
  NoteMembership(registered.cluster_id(), 0);
  const absl::Duration end_grace =
      registered.has_end_grace()
          ? absl::Milliseconds(TimeUtil::DurationToMilliseconds(registered.end_grace()))
          : options_.stop_grace;
  for (const auto& [key, keep, acked] : AnswersTo(offered_, registered)) {
    if (keep) {
      relay_.Rewind(key, acked);
    } else {
      const std::string reason = "the coordinator does not want it any more";
      supervisor_.StopOne(key, end_grace, reason, [&](const RankKey& trainer) {
        return trainers_->RequestStop(trainer, /*checkpoint=*/true, reason);
      });
      relay_.Drop(key);
    }
  }
  spdlog::info("registered with the coordinator worker={} coordinator={} held={}", options_.name,
               coordinators_->address(), offered_.size());
  {
    const MutexLock lock(mu_);
    connected_ = true;
  }
  metrics_.SetConnected(true);
  registered_ = true;
  Signal();
}

void Daemon::OnMessage(const v1::CoordinatorMessage& message) {
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kAssign:
      NoteMembership(membership_.cluster_id, message.assign().epoch());
      if (!stopping_) supervisor_.Assign(message.assign());
      break;
    case v1::CoordinatorMessage::kStop: {
      const v1::Stop& stop = message.stop();
      const absl::Duration grace =
          stop.has_grace() ? absl::Milliseconds(TimeUtil::DurationToMilliseconds(stop.grace()))
                           : options_.stop_grace;
      const auto ask = [&](const RankKey& key) {
        return trainers_->RequestStop(key, /*checkpoint=*/true, stop.reason());
      };
      supervisor_.Stop(stop.job_uid(), stop.epoch(), grace, stop.reason(),
                       stop.checkpoint() ? ask : Supervisor::Ask());
      break;
    }
    case v1::CoordinatorMessage::kSave: {
      const RankKey key{message.save().job_uid(), message.save().epoch(), 0};
      supervisor_.NoteSave(key, message.save().request());
      trainers_->RequestSave(key, message.save().request());
      break;
    }
    case v1::CoordinatorMessage::kAck:
      relay_.Acked(KeyOf(message.ack()), message.ack().sequence());
      acked_.NotifyAll();
      break;
    case v1::CoordinatorMessage::kLogRequest:
      logs_.Request(message.log_request());
      break;
    case v1::CoordinatorMessage::kInspect:
      inspector_.Request(message.inspect());
      break;
    case v1::CoordinatorMessage::kRegistered:  // is always the first message of a session
    case v1::CoordinatorMessage::MESSAGE_NOT_SET:
      spdlog::warn("message from the coordinator not understood case={}",
                   static_cast<int>(message.message_case()));
  }
}

v1::Heartbeat Daemon::Beat() {
  v1::WorkerMessage fitted;
  v1::Heartbeat& heartbeat = *fitted.mutable_heartbeat();
  const std::vector<Gpu> gpus = gpus_.Gpus();
  for (const Slot& slot : node_.slots) {
    if (slot.kind != SlotKind::kGpu) continue;
    v1::SlotHealth* health = heartbeat.add_health();
    health->set_slot(slot.index);
    health->set_fault(FaultOf(slot, gpus));
  }
  look_ = true;
  Fit(&fitted);
  return std::move(heartbeat);
}

// Trainers and libraries have written some of it.
std::optional<v1::WorkerMessage> Daemon::NextMessage() {
  std::optional<v1::WorkerMessage> message = ChooseMessage();
  if (message.has_value()) Fit(&*message);
  return message;
}

void Daemon::Fit(v1::WorkerMessage* message) {
  const absl::Status fault = FitWorkerMessage(message);
  if (!fault.ok() && !fitted_.exchange(true)) {
    spdlog::warn("messages to the coordinator are cut to its bounds: {}", fault.ToString());
  }
}

std::optional<v1::WorkerMessage> Daemon::ChooseMessage() {
  // They take turns, so that neither a replay nor a long log starves the other.
  logs_turn_ = !logs_turn_;
  v1::WorkerMessage message;
  if (std::exchange(look_, false)) {
    if (std::optional<v1::RankPositions> positions =
            positions_.Look(supervisor_.Running(), clock_.Monotonic())) {
      *message.mutable_positions() = *std::move(positions);
      return message;
    }
  }
  if (std::optional<v1::Inspection> inspection = inspector_.Next()) {
    *message.mutable_inspection() = *std::move(inspection);
    return message;
  }
  for (const bool logs : {logs_turn_, !logs_turn_}) {
    if (logs) {
      if (std::optional<v1::LogData> data = logs_.Next()) {
        *message.mutable_log_data() = *std::move(data);
        return message;
      }
    } else if (std::optional<v1::RankReport> report = relay_.Next()) {
      *message.mutable_report() = *std::move(report);
      return message;
    }
  }
  return std::nullopt;
}

void Daemon::OnDisconnected() {
  relay_.Pause();
  logs_.Reset();
  metrics_.SetConnected(false);
  {
    const MutexLock lock(mu_);
    connected_ = false;
  }
  acked_.NotifyAll();
}

void Daemon::OnRefused(const absl::Status& status) {
  const std::string message = absl::StrCat(
      "coordinator ", coordinators_->address(), " refused worker ", options_.name, " (build ",
      kBuildVersion, ", protocol version ", kProtocolVersion, "): ", status.message());
  {
    const MutexLock lock(mu_);
    refusal_ = absl::Status(status.code(), message);
  }
  Signal();
}

// ---- the trainers' side

// A trainer ends by itself within its lease and this, so that none holds its device for long
// without a daemon. The fence protects an attempt that the coordinator has started by then.
constexpr absl::Duration kMostLeaseGrace = absl::Seconds(10);

v1::AttachResponse Daemon::Roots() const {
  v1::AttachResponse roots;
  roots.set_data_root(options_.data_root);
  roots.set_checkpoint_root(options_.checkpoint_root);
  return roots;
}

absl::StatusOr<v1::AttachResponse> Daemon::Attach(const v1::AttachRequest& request) {
  ASSIGN_OR_RETURN(v1::AttachResponse response, supervisor_.Attach(request));
  response.MergeFrom(Roots());
  *response.mutable_lease() =
      TimeUtil::MillisecondsToDuration(absl::ToInt64Milliseconds(options_.lease));
  *response.mutable_lease_grace() = TimeUtil::MillisecondsToDuration(
      absl::ToInt64Milliseconds(std::min(options_.stop_grace, kMostLeaseGrace)));
  response.set_interface_address(options_.interface_address);
  response.set_tuning_folder(options_.state_dir + "/tuning");
  return response;
}

absl::Status Daemon::CheckCurrent(const RankKey& key) { return supervisor_.CheckCurrent(key); }

void Daemon::OnConnected(const RankKey& key) {
  supervisor_.CatchUpLater(key);
  // The coordinator has asked before, so there is a trainers_.
  if (const int64_t save = supervisor_.SaveOf(key); save > 0) trainers_->RequestSave(key, save);
}

void Daemon::OnReport(const v1::RankReport& report) {
  v1::WorkerMessage kept;  // until it is acknowledged, so it is cut first
  *kept.mutable_report() = report;
  Fit(&kept);
  if (!relay_.Live(kept.report())) supervisor_.CatchUpLater(KeyOf(report));
  if (report.has_exit()) supervisor_.ExpectExit(KeyOf(report));
}

}  // namespace stretto::daemon

// SPDX-License-Identifier: Apache-2.0
#pragma once
// The worker daemon: constructs the parts in dependency order and passes messages between them. It
// makes no decision that a part could make.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/limits.h"
#include "proto/base/mutex.h"
#include "proto/monitoring/monitoring_server.h"
#include "proto/tls/files.h"
#include "worker/daemon/coordinator_channels.h"
#include "worker/daemon/coordinator_link.h"
#include "worker/daemon/gpu_watch.h"
#include "worker/daemon/inspector.h"
#include "worker/daemon/log_stream.h"
#include "worker/daemon/metrics.h"
#include "worker/daemon/node_probe.h"
#include "worker/daemon/nvml.h"
#include "worker/daemon/position_watch.h"
#include "worker/daemon/report_relay.h"
#include "worker/daemon/rights/prepared_rights.h"
#include "worker/daemon/run_folder.h"
#include "worker/daemon/state_dir.h"
#include "worker/daemon/supervisor.h"
#include "worker/daemon/trainer_service.h"

namespace stretto::daemon {

struct DaemonOptions {
  std::string coordinator;  // HOST:PORT, or several, separated by commas
  tls::Files tls;           // empty(): plain text to the coordinator
  std::string name;         // empty: derived from the host name
  int slots = 0;            // 0: every core
  std::string host;         // shown to people; empty: the host name
  std::string state_dir;
  std::string data_root;        // empty: STATE/data, created if missing
  std::string checkpoint_root;  // empty: STATE/checkpoints; created if missing
  std::string metrics_listen = "127.0.0.1:0";
  std::string trainer_binary;
  int64_t max_log_bytes = limits::kTrainerLogBytes.value;  // of each trainer
  std::string interface_address = "127.0.0.1";             // gloo binds to it
  absl::Duration lease = absl::Seconds(15);                // how long a trainer runs without us
  absl::Duration metrics_retention = absl::Minutes(5);
  absl::Duration stop_grace = absl::Seconds(10);
  // Forget the cluster that this worker belonged to, and belong to that of the coordinator.
  bool join_new_cluster = false;
  // Each allows unencrypted traffic beyond loopback: of all kinds, of metrics, of tensors between
  // ranks.
  bool insecure_beyond_loopback = false;  // all three
  bool insecure_metrics_beyond_loopback = false;
  bool insecure_tensors_beyond_loopback = false;
  std::string nvml_library = "libnvidia-ml.so.1";  // empty: offer no GPUs
  RightsOptions rights;                            // of trainers
};

// Thread-safe. The destructor leaves trainers running for the next daemon to adopt.
class Daemon final : private SessionHandler, private TrainerServiceHandler {
 public:
  // `clock` is borrowed and must outlive this. Errors:
  //   INVALID_ARGUMENT   an option, named as its flag, or a socket path that is too long
  //   PERMISSION_DENIED  an address beyond loopback without the flag that allows it
  //   ALREADY_EXISTS     the state folder is in use
  //   UNAVAILABLE        the metrics port is in use
  // and those of PrepareRights and tls::CheckFiles, also for the certificate of another worker.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(DaemonOptions options, const Clock& clock);
  ~Daemon() override;

  const std::string& name() const { return options_.name; }
  int metrics_port() const { return monitoring_->port(); }
  Metrics& metrics() { return metrics_; }

  // Polls readable when `registered` or `refusal` may have changed.
  int event_fd() const { return event_.get(); }
  bool registered() const { return registered_; }  // at least once
  // Returns why the coordinator will never accept this daemon, for the operator.
  std::optional<absl::Status> refusal() const;

  // Asks every trainer to write a checkpoint and end, kills those that exceed the grace, and gives
  // the coordinator a moment to receive their reports. New assignments are ignored from here on.
  void StopTrainers();

 private:
  Daemon(DaemonOptions options, PreparedRights rights, std::unique_ptr<Nvml> nvml, Node node,
         const Clock& clock);
  absl::Status Open();
  // Keeps the newest epoch, also for the next daemon.
  void NoteMembership(const std::string& cluster_id, int64_t epoch);
  void Signal();
  // Has the link fetch the next message, once there is a link.
  void Wake();
  absl::Status Ready() const;  // for /readyz
  // Returns why no rank may run there, by NVML's newest reading; empty while healthy.
  static std::string FaultOf(const Slot& slot, const std::vector<Gpu>& gpus);

  stretto::v1alpha1::Register Introduction();
  // The folders that jobs may read on this node.
  stretto::v1alpha1::AttachResponse Roots() const;
  std::optional<stretto::v1alpha1::WorkerMessage> ChooseMessage();
  // Makes a message one that the coordinator admits. Logs it the first time.
  void Fit(stretto::v1alpha1::WorkerMessage* message);

  stretto::v1alpha1::Register Registration() override;
  void OnRegistered(const stretto::v1alpha1::Registered& registered) override;
  void OnMessage(const stretto::v1alpha1::CoordinatorMessage& message) override;
  stretto::v1alpha1::Heartbeat Beat() override;
  std::optional<stretto::v1alpha1::WorkerMessage> NextMessage() override;
  void OnDisconnected() override;
  void OnRefused(const absl::Status& status) override;

  absl::StatusOr<stretto::v1alpha1::AttachResponse> Attach(
      const stretto::v1alpha1::AttachRequest& request) override;
  absl::Status CheckCurrent(const RankKey& key) override;
  void OnConnected(const RankKey& key) override;
  void OnReport(const stretto::v1alpha1::RankReport& report) override;

  const DaemonOptions options_;
  const PreparedRights rights_;
  const Clock& clock_;
  GpuWatch gpus_;
  const Node node_;
  const std::string incarnation_;
  FileDescriptor event_;

  // Made last, because it calls the other parts, and destroyed last, because they wake it.
  std::unique_ptr<CoordinatorChannels> coordinators_;
  std::unique_ptr<CoordinatorLink> link_;
  std::atomic<CoordinatorLink*> awake_{nullptr};  // link_, once it may be woken

  FileDescriptor lock_;
  RunFolders folders_;
  Metrics metrics_;
  ReportRelay relay_;
  Supervisor supervisor_;
  LogStreams logs_;
  Inspector inspector_;
  std::unique_ptr<TrainerService> trainers_;
  std::unique_ptr<monitoring::MonitoringServer> monitoring_;  // last: asks the others

  std::vector<stretto::v1alpha1::HeldRank> offered_;  // in the last Register; reading thread only
  Membership membership_;                             // reading thread only
  bool logs_turn_ = false;                            // writing thread only
  bool look_ = false;                                 // writing thread only: a heartbeat was sent
  PositionWatch positions_;                           // writing thread only
  std::atomic<bool> fitted_{false};
  std::atomic<bool> registered_{false};
  std::atomic<bool> stopping_{false};

  mutable Mutex mu_;
  CondVar acked_;
  bool connected_ GUARDED_BY(mu_) = false;
  std::optional<absl::Status> refusal_ GUARDED_BY(mu_);
};

}  // namespace stretto::daemon

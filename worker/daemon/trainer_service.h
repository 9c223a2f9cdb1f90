// SPDX-License-Identifier: Apache-2.0
#pragma once
// TrainerService on a unix socket that only this user may open. Through it trainers get their task,
// report, keep their lease on the daemon, and reach the coordinator's rendezvous. Uses gRPC's
// callback API and makes no decision.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stretto/v1alpha1/trainer.pb.h"
#include "worker/daemon/coordinator_channels.h"
#include "worker/daemon/trainers/rank_key.h"

namespace stretto::daemon {

// What the service needs from the daemon. Called on gRPC threads; must not wait for disks or
// networks.
class TrainerServiceHandler {
 public:
  virtual ~TrainerServiceHandler() = default;
  // Errors: ABORTED (not a rank of the current epoch on this node).
  virtual absl::StatusOr<stretto::v1alpha1::AttachResponse> Attach(
      const stretto::v1alpha1::AttachRequest& request) = 0;
  virtual absl::Status CheckCurrent(const RankKey& key) = 0;
  // A trainer's stream is open; earlier reports may have been missed.
  virtual void OnConnected(const RankKey& key) = 0;
  virtual void OnReport(const stretto::v1alpha1::RankReport& report) = 0;
};

// Thread-safe.
class TrainerService {
 public:
  // Listens, and replaces a stale socket file. `handler` and `coordinators` are
  // borrowed and must outlive this. Errors: INVALID_ARGUMENT (the path does not fit a
  // socket address), UNAVAILABLE (cannot listen).
  static absl::StatusOr<std::unique_ptr<TrainerService>> Start(
      const std::string& socket_path, TrainerServiceHandler& handler,
      const CoordinatorChannels& coordinators);
  ~TrainerService();

  // Sends StopTrainer. Returns false if that trainer has no open stream.
  bool RequestStop(const RankKey& key, bool checkpoint, const std::string& reason);
  // Sends SaveNow, if that trainer has an open stream. One that comes again changes nothing.
  void RequestSave(const RankKey& key, int64_t request);
  // Closes every stream and the socket.
  void Shutdown();

 private:
  class Impl;
  TrainerService();
  std::unique_ptr<Impl> impl_;
};

// The longest socket path that the kernel accepts (sockaddr_un, without the terminating byte).
inline constexpr size_t kMaxSocketPathBytes = 107;

}  // namespace stretto::daemon

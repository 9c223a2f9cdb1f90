// SPDX-License-Identifier: Apache-2.0
#pragma once
// TrainerService on a unix socket that only this user may open: trainers learn their task, report,
// hold their lease on us, and reach the coordinator's rendezvous through us. gRPC callback API; no
// decision is made here.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stretto/v1alpha1/trainer.pb.h"
#include "worker/daemon/rank_key.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace stretto::daemon {

// What the service asks of the rest. Called on gRPC threads; must not wait for disks or networks.
class TrainerServiceHandler {
 public:
  virtual ~TrainerServiceHandler() = default;
  // ABORTED: not a rank of the current epoch on this node.
  virtual absl::StatusOr<stretto::v1alpha1::AttachResponse> Attach(
      const stretto::v1alpha1::AttachRequest& request) = 0;
  virtual absl::Status CheckCurrent(const RankKey& key) = 0;
  // A trainer's stream is open; reports may have been missed before.
  virtual void OnConnected(const RankKey& key) = 0;
  virtual void OnReport(const stretto::v1alpha1::RankReport& report) = 0;
};

// Thread-safe.
class TrainerService {
 public:
  // Listens; a stale socket file is replaced. `handler` is borrowed and outlives this;
  // `coordinator` is shared with the session. INVALID_ARGUMENT: the path does not fit a socket
  // address. UNAVAILABLE: cannot listen.
  static absl::StatusOr<std::unique_ptr<TrainerService>> Start(
      const std::string& socket_path, TrainerServiceHandler& handler,
      std::shared_ptr<grpc::Channel> coordinator);
  ~TrainerService();

  // Sends StopTrainer. False: that trainer has no open stream.
  bool RequestStop(const RankKey& key, bool checkpoint, const std::string& reason);
  // Closes every stream and the socket.
  void Shutdown();

 private:
  class Impl;
  TrainerService();
  std::unique_ptr<Impl> impl_;
};

// The longest socket path the kernel takes (sockaddr_un, with its end byte).
inline constexpr size_t kMaxSocketPathBytes = 107;

}  // namespace stretto::daemon

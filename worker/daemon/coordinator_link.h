// SPDX-License-Identifier: Apache-2.0
#pragma once
// The daemon's end of WorkerService.Session: connects, registers, heartbeats, sends what the
// handler has, and connects again with growing pauses when the stream breaks. Two threads: one
// reads and owns the connection, one writes. Training never waits for any of this.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"
#include "proto/tls/files.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace stretto::daemon {

// What a session is about. Beat and NextMessage are called on the writing thread, all others on the
// reading thread.
class SessionHandler {
 public:
  virtual ~SessionHandler() = default;
  // The first message of a connection.
  virtual stretto::v1alpha1::Register Registration() = 0;
  virtual void OnRegistered(const stretto::v1alpha1::Registered& registered) = 0;
  // Every later message.
  virtual void OnMessage(const stretto::v1alpha1::CoordinatorMessage& message) = 0;
  // What a heartbeat says besides its time. Must not wait.
  virtual stretto::v1alpha1::Heartbeat Beat() = 0;
  // The next report or log chunk; called after OnRegistered and after every Wake, until nullopt.
  virtual std::optional<stretto::v1alpha1::WorkerMessage> NextMessage() = 0;
  // A registered connection has ended.
  virtual void OnDisconnected() = 0;
  // The coordinator will never accept us: FAILED_PRECONDITION, INVALID_ARGUMENT or ALREADY_EXISTS,
  // with its message, or before it ever did, PERMISSION_DENIED or UNAUTHENTICATED. The session does
  // not try again. (Later a wrong certificate may be replaced, and ranks train meanwhile.)
  virtual void OnRefused(const absl::Status& status) = 0;
};

// Pause before connection attempt `attempt` (0 = first retry): 200 ms doubling up to 5 s, times
// 0.8 to 1.2, the same for the same seed.
absl::Duration ReconnectPause(uint64_t seed, int attempt);

// Thread-safe.
class CoordinatorLink {
 public:
  // `handler` is borrowed and outlives this. `channel` is shared with the rendezvous calls.
  // `explain` is asked once per outage, on the reading thread, what gRPC does not tell; its answer,
  // which may be empty, goes to the log.
  CoordinatorLink(std::shared_ptr<grpc::Channel> channel, SessionHandler& handler,
                  uint64_t jitter_seed, std::function<std::string()> explain);
  ~CoordinatorLink();
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;

  // NextMessage has something new.
  void Wake();
  // Ends the connection and both threads. No handler call after it returns.
  void Stop();

 private:
  struct Connection;

  void Run();
  absl::Status Connect();  // one connection, from register to its end
  void Write(Connection& connection);
  bool PauseBefore(int attempt);  // false: stopping

  const std::shared_ptr<grpc::Channel> channel_;
  SessionHandler& handler_;
  const uint64_t jitter_seed_;
  const std::function<std::string()> explain_;

  Mutex mu_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mu_) = false;
  bool wake_ GUARDED_BY(mu_) = false;
  bool was_registered_ GUARDED_BY(mu_) = false;  // since the last pause
  bool ever_registered_ GUARDED_BY(mu_) = false;
  grpc::ClientContext* context_ GUARDED_BY(mu_) = nullptr;  // of the open connection
  std::thread thread_;
};

// A channel to the coordinator, tuned so that a silent network shows within about 20 s of a write.
// Mutual TLS with `files`, plain text if they are empty().
std::shared_ptr<grpc::Channel> CoordinatorChannel(const std::string& address,
                                                  const tls::Files& files);

}  // namespace stretto::daemon

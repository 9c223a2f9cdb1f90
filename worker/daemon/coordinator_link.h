// SPDX-License-Identifier: Apache-2.0
#pragma once
// The daemon's side of WorkerService.Session: connects, registers, sends heartbeats and the
// handler's messages, and reconnects with growing pauses when the stream breaks. SendOrder decides
// what is sent when, and Reconnect what follows a connection; this has the streams and the threads.
// One thread reads and owns the connection, another one writes. Training never waits for either.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "worker/daemon/coordinator_channels.h"
#include "worker/daemon/session/reconnect.h"

namespace stretto::daemon {

// The contents of a session. Beat and NextMessage are called on the writing thread, all others on
// the reading thread.
class SessionHandler {
 public:
  virtual ~SessionHandler() = default;
  // Returns the first message of a connection.
  virtual stretto::v1alpha1::Register Registration() = 0;
  virtual void OnRegistered(const stretto::v1alpha1::Registered& registered) = 0;
  // Called for every later message.
  virtual void OnMessage(const stretto::v1alpha1::CoordinatorMessage& message) = 0;
  // Returns a heartbeat; the link sets its time. Must not wait.
  virtual stretto::v1alpha1::Heartbeat Beat() = 0;
  // Returns the next report or log chunk. Called after OnRegistered and after every Wake, until it
  // returns nullopt.
  virtual std::optional<stretto::v1alpha1::WorkerMessage> NextMessage() = 0;
  // A registered connection has ended.
  virtual void OnDisconnected() = 0;
  // The coordinator will never accept this daemon (Reconnect::Next::refused). `status` has its
  // message. The link does not retry.
  virtual void OnRefused(const absl::Status& status) = 0;
};

// Thread-safe.
class CoordinatorLink {
 public:
  // `handler` and `channels` are borrowed and must outlive this. When a connection ends or fails,
  // the next channel becomes the current one; after all of them there is a pause.
  // `explain` is called once per outage on the reading thread, for details that gRPC does not
  // report; its result, which may be empty, is logged.
  CoordinatorLink(CoordinatorChannels& channels, SessionHandler& handler, uint64_t jitter_seed,
                  std::function<std::string()> explain);
  ~CoordinatorLink();
  CoordinatorLink(const CoordinatorLink&) = delete;
  CoordinatorLink& operator=(const CoordinatorLink&) = delete;

  // Call when NextMessage has a new message.
  void Wake();
  // Ends the connection and both threads. No handler call runs after it returns.
  void Stop();

 private:
  struct Connection;

  void Run();
  // One connection, from registration to its end. `registered`: the coordinator accepted it.
  absl::Status Connect(bool* registered);
  void Write(Connection& connection);
  bool Pause(absl::Duration pause);  // false: stopping

  CoordinatorChannels& channels_;
  SessionHandler& handler_;
  const std::function<std::string()> explain_;
  Reconnect reconnect_;  // reading thread only

  Mutex mu_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mu_) = false;
  Connection* connection_ GUARDED_BY(mu_) = nullptr;  // the open one
  std::thread thread_;
};

}  // namespace stretto::daemon

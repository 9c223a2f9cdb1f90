// SPDX-License-Identifier: Apache-2.0

// The reading thread connects, registers, and reads until the stream ends; a writer thread per
// connection sends heartbeats on time and messages as they come. Both share flags under one mutex
// and wake each other through one condition. Run repeats this with growing pauses until the link is
// stopped or permanently refused.

#include "worker/daemon/coordinator_link.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "proto/base/random.h"
#include "spdlog/spdlog.h"
#include "stretto/v1alpha1/worker.grpc.pb.h"

namespace stretto::daemon {
namespace {

using google::protobuf::util::TimeUtil;
using stretto::v1alpha1::CoordinatorMessage;
using stretto::v1alpha1::WorkerMessage;
using stretto::v1alpha1::WorkerService;

constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(5);
// A standby takes over within seconds, and nobody knows when.
constexpr absl::Duration kLongestPauseOfSeveral = absl::Seconds(1);
constexpr absl::Duration kRegisterTimeout = absl::Seconds(10);
constexpr absl::Duration kDefaultHeartbeat = absl::Seconds(1);

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
         absl::IsAlreadyExists(status);
}

bool IsDenial(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
}

}  // namespace

absl::Duration ReconnectPause(uint64_t seed, int attempt) {
  absl::Duration pause = kFirstPause;
  for (int i = 0; i < attempt && pause < kLongestPause; ++i) pause *= 2;
  const uint32_t draw = Philox(seed, static_cast<uint64_t>(attempt), 0)[0];
  return std::min(pause, kLongestPause) * (0.8 + 0.4 * ToUniform(draw));
}

struct CoordinatorLink::Connection {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<WorkerMessage, CoordinatorMessage>> stream;
  // Guarded by CoordinatorLink::mu_.
  bool registered = false;
  bool ended = false;
  absl::Duration heartbeat = kDefaultHeartbeat;
};

CoordinatorLink::CoordinatorLink(CoordinatorChannels& channels, SessionHandler& handler,
                                 uint64_t jitter_seed, std::function<std::string()> explain)
    : channels_(channels),
      handler_(handler),
      jitter_seed_(jitter_seed),
      explain_(std::move(explain)),
      thread_([this] { Run(); }) {}

CoordinatorLink::~CoordinatorLink() { Stop(); }

void CoordinatorLink::Wake() {
  {
    const MutexLock lock(mu_);
    wake_ = true;
  }
  changed_.NotifyAll();
}

void CoordinatorLink::Stop() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

bool CoordinatorLink::PauseBefore(int attempt) {
  const MutexLock lock(mu_);
  absl::Duration pause = ReconnectPause(jitter_seed_, attempt);
  if (channels_.size() > 1) pause = std::min(pause, kLongestPauseOfSeveral);
  changed_.WaitFor(mu_, absl::ToChronoMilliseconds(pause),
                   [this]() REQUIRES(mu_) { return stop_; });
  return !stop_;
}

void CoordinatorLink::Run() {
  absl::StatusCode logged = absl::StatusCode::kOk;
  int attempt = 0;
  for (size_t failed = 1;; ++failed) {
    const absl::Status status = Connect();
    bool newcomer = false;
    {
      const MutexLock lock(mu_);
      if (stop_) return;
      newcomer = !ever_registered_;
      if (std::exchange(was_registered_, false)) {
        attempt = 0;
        failed = 1;
      }
    }
    if (IsRefusal(status) || (newcomer && IsDenial(status))) {
      handler_.OnRefused(status);
      return;
    }
    // Logged once per outage and kind of failure, not per attempt.
    if (attempt == 0 || status.code() != logged) {
      logged = status.code();
      const std::string more = absl::IsUnavailable(status) ? explain_() : "";
      spdlog::warn("no session with the coordinator, trying again: {}{}{}", status.ToString(),
                   more.empty() ? "" : "; ", more);
    }
    channels_.Next();
    if (failed % channels_.size() != 0) continue;  // each address once, then a pause
    if (!PauseBefore(attempt++)) return;
  }
}

absl::Status CoordinatorLink::Connect() {
  Connection connection;
  const std::unique_ptr<WorkerService::Stub> stub = WorkerService::NewStub(channels_.Current());
  {
    const MutexLock lock(mu_);
    if (stop_) return absl::CancelledError("stopping");
    context_ = &connection.context;
  }
  connection.stream = stub->Session(&connection.context);
  WorkerMessage hello;
  *hello.mutable_register_() = handler_.Registration();
  connection.stream->Write(hello);  // Finish reports a failure
  std::thread writer([this, &connection] { Write(connection); });

  CoordinatorMessage message;
  bool registered = false;
  while (connection.stream->Read(&message)) {
    if (registered) {
      handler_.OnMessage(message);
      continue;
    }
    if (!message.has_registered()) {
      connection.context.TryCancel();
      break;
    }
    registered = true;
    handler_.OnRegistered(message.registered());
    const int64_t interval =
        TimeUtil::DurationToMilliseconds(message.registered().heartbeat_interval());
    {
      const MutexLock lock(mu_);
      connection.registered = was_registered_ = ever_registered_ = true;
      if (interval > 0) connection.heartbeat = absl::Milliseconds(interval);
    }
    changed_.NotifyAll();
  }
  {
    const MutexLock lock(mu_);
    connection.ended = true;
  }
  changed_.NotifyAll();
  writer.join();  // returns soon: a write on an ended stream fails at once
  const grpc::Status status = connection.stream->Finish();
  {
    const MutexLock lock(mu_);
    context_ = nullptr;
  }
  if (registered) handler_.OnDisconnected();
  return status.ok() ? absl::UnavailableError("the coordinator ended the session")
                     : FromGrpc(status);
}

void CoordinatorLink::Write(Connection& connection) {
  MutexLock lock(mu_);
  const auto registered = [&] { return connection.registered || connection.ended; };
  if (!changed_.WaitFor(mu_, absl::ToChronoMilliseconds(kRegisterTimeout), registered)) {
    connection.context.TryCancel();
    return;
  }
  auto next_heartbeat = std::chrono::steady_clock::now();
  // Heartbeats come before messages, so that a long replay does not cost the lease.
  while (!connection.ended) {
    wake_ = false;
    const bool beat = std::chrono::steady_clock::now() >= next_heartbeat;
    if (beat) next_heartbeat += absl::ToChronoMilliseconds(connection.heartbeat);
    lock.Unlock();
    bool open = true;
    if (beat) {
      WorkerMessage heartbeat;
      *heartbeat.mutable_heartbeat() = handler_.Beat();
      *heartbeat.mutable_heartbeat()->mutable_time() = TimeUtil::GetCurrentTime();
      open = connection.stream->Write(heartbeat);
    }
    std::optional<WorkerMessage> message = handler_.NextMessage();
    if (open && message.has_value()) open = connection.stream->Write(*message);
    lock.Lock();
    if (!open) return;
    if (message.has_value()) continue;
    changed_.WaitUntil(mu_, next_heartbeat,
                       [&]() REQUIRES(mu_) { return wake_ || connection.ended; });
  }
}

}  // namespace stretto::daemon

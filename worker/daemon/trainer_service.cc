// SPDX-License-Identifier: Apache-2.0

// The gRPC server on the unix socket. Each trainer has one stream, which reads one message at a
// time and writes from a small queue whose front is being written. A ticker sends Alive to all
// streams, so that trainers see that the daemon is alive. Rendezvous calls are forwarded to the
// coordinator.

#include "worker/daemon/trainer_service.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/trainer.grpc.pb.h"
#include "stretto/v1alpha1/worker.grpc.pb.h"
#include "worker/daemon/store_forward.h"

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;

constexpr std::chrono::seconds kAliveInterval{1};
constexpr std::chrono::seconds kShutdownGrace{1};

grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

grpc::Status Gone() {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the worker daemon ends");
}

}  // namespace

class TrainerService::Impl final : public v1::TrainerService::CallbackService {
 public:
  Impl(TrainerServiceHandler& handler, const CoordinatorChannels& coordinators)
      : handler_(handler), coordinators_(coordinators) {}
  ~Impl() override { Shutdown(); }

  absl::Status Listen(const std::string& path);
  bool SendTo(const RankKey& key, const v1::DaemonMessage& message);
  void Shutdown();

  grpc::ServerUnaryReactor* Attach(grpc::CallbackServerContext* context,
                                   const v1::AttachRequest* request,
                                   v1::AttachResponse* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    absl::StatusOr<v1::AttachResponse> answer = handler_.Attach(*request);
    const grpc::Status status = ToGrpc(answer.status());
    if (answer.ok()) *response = *std::move(answer);
    reactor->Finish(status);
    return reactor;
  }

  grpc::ServerBidiReactor<v1::TrainerMessage, v1::DaemonMessage>* Reports(
      grpc::CallbackServerContext* context) override;

  grpc::ServerUnaryReactor* StoreSet(grpc::CallbackServerContext* context,
                                     const v1::StoreSetRequest* request,
                                     v1::StoreSetResponse* response) override {
    return new StoreForward<v1::StoreSetRequest, v1::StoreSetResponse>(
        *context, *request, response, [this](auto* c, auto* in, auto* out, auto done) {
          const Stub stub = Coordinator();
          stub->async()->StoreSet(c, in, out, [stub, done](const grpc::Status& s) { done(s); });
        });
  }
  grpc::ServerUnaryReactor* StoreGet(grpc::CallbackServerContext* context,
                                     const v1::StoreGetRequest* request,
                                     v1::StoreGetResponse* response) override {
    return new StoreForward<v1::StoreGetRequest, v1::StoreGetResponse>(
        *context, *request, response, [this](auto* c, auto* in, auto* out, auto done) {
          const Stub stub = Coordinator();
          stub->async()->StoreGet(c, in, out, [stub, done](const grpc::Status& s) { done(s); });
        });
  }

 private:
  class Stream;

  void Tick();
  void Register(const RankKey& key, Stream* stream);
  void Forget(const RankKey& key, Stream* stream);

  // Shared, because it has to exist until the call ends.
  using Stub = std::shared_ptr<v1::WorkerService::Stub>;
  Stub Coordinator() const { return v1::WorkerService::NewStub(coordinators_.Current()); }

  TrainerServiceHandler& handler_;
  const CoordinatorChannels& coordinators_;
  std::unique_ptr<grpc::Server> server_;

  Mutex mu_;  // locked before a stream's mutex
  CondVar stop_changed_;
  bool stop_ GUARDED_BY(mu_) = false;
  // Borrowed: a stream removes itself before it is destroyed.
  std::map<RankKey, Stream*> streams_ GUARDED_BY(mu_);
  std::thread ticker_;
};

// One trainer's stream. Its queue has at most one Alive, and the requests.
class TrainerService::Impl::Stream final
    : public grpc::ServerBidiReactor<v1::TrainerMessage, v1::DaemonMessage> {
 public:
  explicit Stream(Impl& service) : service_(service) { StartRead(&in_); }

  void Send(const v1::DaemonMessage& message) {
    const MutexLock lock(mu_);
    if (finished_ || (message.has_alive() && !queue_.empty())) return;  // any message shows life
    queue_.push_back(message);
    if (queue_.size() == 1) StartWrite(&queue_.front());
  }

  void End(const grpc::Status& status) {
    {
      const MutexLock lock(mu_);
      if (std::exchange(finished_, true)) return;
      end_ = status;
      if (!queue_.empty()) return;  // OnWriteDone finishes
    }
    Finish(status);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    if (in_.has_hello() && !registered_) {
      key_ = KeyOf(in_.hello());
      const absl::Status current = service_.handler_.CheckCurrent(key_);
      if (!current.ok()) return End(ToGrpc(current));
      registered_ = true;
      service_.Register(key_, this);
      service_.handler_.OnConnected(key_);
    } else if (in_.has_report() && registered_ && KeyOf(in_.report()) == key_) {
      service_.handler_.OnReport(in_.report());
    } else {
      return End(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                              "expected TrainerHello once, then reports of the same rank"));
    }
    StartRead(&in_);
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(mu_);
    queue_.pop_front();
    if (!ok || finished_) queue_.clear();
    if (!queue_.empty()) return StartWrite(&queue_.front());
    if (!finished_) return;
    const grpc::Status end = end_;
    lock.Unlock();
    Finish(end);
  }

  void OnCancel() override { End(grpc::Status::CANCELLED); }

  void OnDone() override {
    if (registered_) service_.Forget(key_, this);
    delete this;
  }

 private:
  Impl& service_;
  RankKey key_;
  bool registered_ = false;  // only one read is outstanding
  v1::TrainerMessage in_;

  Mutex mu_;
  bool finished_ GUARDED_BY(mu_) = false;
  grpc::Status end_ GUARDED_BY(mu_);
  std::deque<v1::DaemonMessage> queue_ GUARDED_BY(mu_);  // the front is being written
};

grpc::ServerBidiReactor<v1::TrainerMessage, v1::DaemonMessage>* TrainerService::Impl::Reports(
    grpc::CallbackServerContext*) {
  return new Stream(*this);
}

absl::Status TrainerService::Impl::Listen(const std::string& path) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on unix socket ", path));
  }
  if (::chmod(path.c_str(), 0600) != 0) return ErrnoStatus(errno, absl::StrCat("chmod ", path));
  ticker_ = std::thread([this] { Tick(); });
  return absl::OkStatus();
}

void TrainerService::Impl::Tick() {
  v1::DaemonMessage alive;
  alive.mutable_alive();
  const MutexLock lock(mu_);
  while (!stop_changed_.WaitFor(mu_, kAliveInterval, [this]() REQUIRES(mu_) { return stop_; })) {
    for (const auto& [key, stream] : streams_) stream->Send(alive);
  }
}

void TrainerService::Impl::Register(const RankKey& key, Stream* stream) {
  v1::DaemonMessage alive;
  alive.mutable_alive();
  const MutexLock lock(mu_);
  if (stop_) return stream->End(Gone());
  streams_[key] = stream;  // a reconnect may precede the end of the old stream
  stream->Send(alive);
}

void TrainerService::Impl::Forget(const RankKey& key, Stream* stream) {
  const MutexLock lock(mu_);
  const auto it = streams_.find(key);
  if (it != streams_.end() && it->second == stream) streams_.erase(it);
}

// Returns false if that trainer has no open stream.
bool TrainerService::Impl::SendTo(const RankKey& key, const v1::DaemonMessage& message) {
  const MutexLock lock(mu_);
  const auto it = streams_.find(key);
  if (it == streams_.end()) return false;
  it->second->Send(message);
  return true;
}

void TrainerService::Impl::Shutdown() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
  }
  stop_changed_.NotifyAll();
  if (ticker_.joinable()) ticker_.join();
  {
    const MutexLock lock(mu_);
    for (const auto& [key, stream] : streams_) stream->End(Gone());
  }
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
}

TrainerService::TrainerService() = default;
TrainerService::~TrainerService() = default;

absl::StatusOr<std::unique_ptr<TrainerService>> TrainerService::Start(
    const std::string& socket_path, TrainerServiceHandler& handler,
    const CoordinatorChannels& coordinators) {
  if (socket_path.size() > kMaxSocketPathBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path ", socket_path, " has ", socket_path.size(), " bytes, at most ",
                     kMaxSocketPathBytes, " fit: choose a shorter --state-dir"));
  }
  std::unique_ptr<TrainerService> service(new TrainerService());
  service->impl_ = std::make_unique<Impl>(handler, coordinators);
  const absl::Status status = service->impl_->Listen(socket_path);
  if (!status.ok()) return status;
  return service;
}

bool TrainerService::RequestStop(const RankKey& key, bool checkpoint, const std::string& reason) {
  v1::DaemonMessage message;
  message.mutable_stop()->set_checkpoint(checkpoint);
  message.mutable_stop()->set_reason(reason);
  return impl_->SendTo(key, message);
}

void TrainerService::RequestSave(const RankKey& key, int64_t request) {
  v1::DaemonMessage message;
  message.mutable_save()->set_request(request);
  impl_->SendTo(key, message);
}

void TrainerService::Shutdown() { impl_->Shutdown(); }

}  // namespace stretto::daemon

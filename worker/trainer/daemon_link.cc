// SPDX-License-Identifier: Apache-2.0

// A thread connects to the daemon, listens for stop requests and signs of life, and reconnects when
// the stream breaks. Send writes to the current stream if there is one; a report that is lost there
// is already in the log. The daemon reads the log when a stream begins and when a report shows a
// gap, so the newest report without a stream is sent as soon as there is one: it may have been
// logged after the daemon read the log. The destructor waits briefly for the daemon to read
// everything.

#include "worker/trainer/daemon_link.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/base/clock.h"
#include "proto/base/exit_reason.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/trainer.grpc.pb.h"

namespace stretto::trainer {
namespace {

using v1alpha1::TrainerService;

constexpr absl::Duration kCallTimeout = absl::Seconds(10);
constexpr auto kReconnectPause = std::chrono::milliseconds(300);
constexpr auto kFarewell = std::chrono::seconds(2);

absl::Status ToStatus(const grpc::Status& status, absl::string_view what) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(what, ": ", status.error_message()));
}

void SetDeadline(grpc::ClientContext* context, absl::Duration timeout) {
  context->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
}

class DaemonStore final : public Store {
 public:
  DaemonStore(TrainerService::StubInterface* stub, std::string job_uid, int64_t epoch)
      : stub_(stub), job_uid_(std::move(job_uid)), epoch_(epoch) {}

  absl::Status Set(absl::string_view key, absl::string_view bytes) override {
    v1alpha1::StoreSetRequest request;
    request.set_job_uid(job_uid_);
    request.set_epoch(epoch_);
    request.set_key(std::string(key));
    request.set_value(std::string(bytes));
    v1alpha1::StoreSetResponse response;
    grpc::ClientContext context;
    SetDeadline(&context, absl::Minutes(1));
    return ToStatus(stub_->StoreSet(&context, request, &response),
                    absl::StrCat("rendezvous: set ", key));
  }

  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override {
    v1alpha1::StoreGetRequest request;
    request.set_job_uid(job_uid_);
    request.set_epoch(epoch_);
    request.set_key(std::string(key));
    v1alpha1::StoreGetResponse response;
    grpc::ClientContext context;
    SetDeadline(&context, timeout);
    const grpc::Status status = stub_->StoreGet(&context, request, &response);
    if (!status.ok()) return ToStatus(status, absl::StrCat("rendezvous: get ", key));
    return response.value();
  }

 private:
  TrainerService::StubInterface* const stub_;
  const std::string job_uid_;
  const int64_t epoch_;
};

}  // namespace

class DaemonLink::Impl {
 public:
  Impl(const std::string& socket_path, std::string job_uid, int64_t epoch, int rank)
      : job_uid_(std::move(job_uid)),
        epoch_(epoch),
        rank_(rank),
        stub_(TrainerService::NewStub(
            grpc::CreateChannel("unix:" + socket_path, grpc::InsecureChannelCredentials()))),
        store_(stub_.get(), job_uid_, epoch_),
        last_alive_(Clock::Real().Monotonic()) {}

  ~Impl() {
    {
      const MutexLock lock(mu_);
      stopped_ = true;
      // The daemon ends the stream when it has read all of it, including reports that no log has.
      if (stream_ != nullptr && stream_->WritesDone()) {
        wake_.WaitFor(mu_, kFarewell, [this]() REQUIRES(mu_) { return stream_ == nullptr; });
      }
      if (context_ != nullptr) context_->TryCancel();
    }
    wake_.NotifyAll();
    if (thread_.joinable()) thread_.join();
  }

  absl::StatusOr<v1alpha1::AttachResponse> Attach(int64_t last_sequence) {
    v1alpha1::AttachRequest request;
    request.set_job_uid(job_uid_);
    request.set_epoch(epoch_);
    request.set_rank(rank_);
    request.set_pid(::getpid());
    request.set_last_sequence(last_sequence);
    v1alpha1::AttachResponse response;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    SetDeadline(&context, kCallTimeout);
    const grpc::Status status = stub_->Attach(&context, request, &response);
    if (!status.ok()) return ToStatus(status, "attach to the daemon");
    const MutexLock lock(mu_);
    last_alive_ = Clock::Real().Monotonic();
    return response;
  }

  void Start() {
    thread_ = std::thread([this] { Serve(); });
  }

  void Send(const v1alpha1::RankReport& report) {
    v1alpha1::TrainerMessage message;
    *message.mutable_report() = report;
    const MutexLock lock(mu_);
    if (stream_ == nullptr) {
      unsent_ = std::move(message);
    } else {
      stream_->Write(message);  // Serve sees a broken stream
    }
  }

  StopRequest stop_request(absl::Duration lease) const {
    const MutexLock lock(mu_);
    if (request_.stop) return request_;
    if (Clock::Real().Monotonic() - last_alive_ > lease) {
      return {.stop = true,
              .checkpoint = true,
              .daemon_lost = true,
              .reason = NameOf(ExitReason::kDaemonLost)};
    }
    return {};
  }

  Store& store() { return store_; }

 private:
  // Connects, listens until the stream breaks, connects again.
  void Serve() {
    while (true) {
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      {
        const MutexLock lock(mu_);
        if (stopped_) return;
        context_ = &context;  // set before the call, so that the destructor can cancel it
      }
      auto stream = stub_->Reports(&context);
      v1alpha1::TrainerMessage hello;
      hello.mutable_hello()->set_job_uid(job_uid_);
      hello.mutable_hello()->set_epoch(epoch_);
      hello.mutable_hello()->set_rank(rank_);
      if (stream->Write(hello)) {
        const MutexLock lock(mu_);
        stream_ = stream.get();
        if (unsent_.has_value()) stream_->Write(*unsent_);
        unsent_.reset();
      }
      v1alpha1::DaemonMessage message;
      while (stream->Read(&message)) Handle(message);
      {
        const MutexLock lock(mu_);
        stream_ = nullptr;
      }
      wake_.NotifyAll();
      const grpc::Status status = stream->Finish();
      const MutexLock lock(mu_);
      context_ = nullptr;
      if (status.error_code() == grpc::StatusCode::ABORTED && !request_.stop) {
        request_ = {.stop = true, .reason = NameOf(ExitReason::kStaleEpoch)};
      }
      if (wake_.WaitFor(mu_, kReconnectPause, [&]() REQUIRES(mu_) { return stopped_; })) return;
    }
  }

  void Handle(const v1alpha1::DaemonMessage& message) {
    const MutexLock lock(mu_);
    last_alive_ = Clock::Real().Monotonic();
    if (message.has_stop()) {
      request_ = {.stop = true,
                  .checkpoint = message.stop().checkpoint(),
                  .reason = message.stop().reason()};
    }
  }

  const std::string job_uid_;
  const int64_t epoch_;
  const int rank_;
  const std::unique_ptr<TrainerService::StubInterface> stub_;
  DaemonStore store_;
  std::thread thread_;
  mutable Mutex mu_;
  CondVar wake_;
  grpc::ClientContext* context_ GUARDED_BY(mu_) = nullptr;
  grpc::ClientReaderWriterInterface<v1alpha1::TrainerMessage, v1alpha1::DaemonMessage>* stream_
      GUARDED_BY(mu_) = nullptr;
  std::optional<v1alpha1::TrainerMessage> unsent_ GUARDED_BY(mu_);  // the newest report
  absl::Duration last_alive_ GUARDED_BY(mu_);
  StopRequest request_ GUARDED_BY(mu_);
  bool stopped_ GUARDED_BY(mu_) = false;
};

DaemonLink::DaemonLink(const std::string& socket_path, std::string job_uid, int64_t epoch, int rank)
    : impl_(std::make_unique<Impl>(socket_path, std::move(job_uid), epoch, rank)) {}
DaemonLink::~DaemonLink() = default;
absl::StatusOr<v1alpha1::AttachResponse> DaemonLink::Attach(int64_t last_sequence) {
  return impl_->Attach(last_sequence);
}
void DaemonLink::Start() { impl_->Start(); }
void DaemonLink::Send(const v1alpha1::RankReport& report) { impl_->Send(report); }
StopRequest DaemonLink::stop_request(absl::Duration lease) const {
  return impl_->stop_request(lease);
}
Store& DaemonLink::store() { return impl_->store(); }

}  // namespace stretto::trainer

// SPDX-License-Identifier: Apache-2.0

// A thread connects to the daemon, listens for stop requests and signs of life, and reconnects when
// the stream breaks. A second thread per stream writes, from a bounded queue: a write may wait for
// a daemon that does not read, and nothing else may wait for that. A report that is lost is already
// in the log. The daemon reads the log when a stream begins and when a report shows a gap, so it is
// enough that the newest report is sent as soon as there is a stream: it may have been logged after
// the daemon read the log. The destructor waits briefly for the daemon to read everything.

#include "worker/trainer/link/daemon_link.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/base/exit_reason.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/trainer.grpc.pb.h"

namespace stretto::trainer {
namespace {

using v1alpha1::TrainerService;

constexpr absl::Duration kCallTimeout = absl::Seconds(10);
constexpr auto kReconnectPause = std::chrono::milliseconds(300);
constexpr auto kFarewell = std::chrono::seconds(2);
constexpr size_t kMaxQueued = 256;  // reports

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
        store_(stub_.get(), job_uid_, epoch_) {}

  ~Impl() {
    Close();
    if (thread_.joinable()) thread_.join();
  }

  bool Close() {
    const MutexLock lock(mu_);
    stopped_ = true;
    wake_.NotifyAll();
    // The daemon ends the stream when it has read all of it, including reports that no log has.
    wake_.WaitFor(mu_, kFarewell, [this]() REQUIRES(mu_) { return !open_; });
    if (context_ != nullptr) context_->TryCancel();
    return wake_.WaitFor(mu_, kFarewell, [this]() REQUIRES(mu_) { return ended_; });
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
    return response;
  }

  void Start() {
    {
      const MutexLock lock(mu_);
      ended_ = false;
    }
    thread_ = std::thread([this] {
      Serve();
      const MutexLock lock(mu_);
      ended_ = true;
      wake_.NotifyAll();
    });
  }

  void Send(const v1alpha1::RankReport& report) {
    {
      const MutexLock lock(mu_);
      if (!open_) queue_.clear();
      if (queue_.size() == kMaxQueued) queue_.pop_front();
      *queue_.emplace_back().mutable_report() = report;
    }
    wake_.NotifyAll();
  }

  void Take(const v1alpha1::DaemonMessage& message) {
    const MutexLock lock(mu_);
    silence_ = absl::ZeroDuration();
    if (message.has_save()) save_request_ = std::max(save_request_, message.save().request());
    if (message.has_stop()) {
      request_ = {.stop = true,
                  .checkpoint = message.stop().checkpoint(),
                  .reason = message.stop().reason()};
    }
  }

  void CountSilence(absl::Duration passed) {
    const MutexLock lock(mu_);
    silence_ += passed;
  }

  absl::Duration silence() const {
    const MutexLock lock(mu_);
    return silence_;
  }

  StopRequest stop_request(absl::Duration lease) const {
    const MutexLock lock(mu_);
    if (request_.stop) return request_;
    if (silence_ > lease) {
      return {.stop = true,
              .checkpoint = true,
              .daemon_lost = true,
              .reason = NameOf(ExitReason::kDaemonLost)};
    }
    return {};
  }

  int64_t save_request() const {
    const MutexLock lock(mu_);
    return save_request_;
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
      const auto stream = stub_->Reports(&context);
      v1alpha1::TrainerMessage hello;
      hello.mutable_hello()->set_job_uid(job_uid_);
      hello.mutable_hello()->set_epoch(epoch_);
      hello.mutable_hello()->set_rank(rank_);
      if (stream->Write(hello)) SetOpen(true);
      std::thread writer([&] { Write(*stream); });
      v1alpha1::DaemonMessage message;
      while (stream->Read(&message)) Take(message);
      SetOpen(false);
      writer.join();  // returns soon: a write on an ended stream fails at once
      const grpc::Status status = stream->Finish();
      const MutexLock lock(mu_);
      context_ = nullptr;
      if (status.error_code() == grpc::StatusCode::ABORTED && !request_.stop) {
        request_ = {.stop = true, .reason = NameOf(ExitReason::kStaleEpoch)};
      }
      if (wake_.WaitFor(mu_, kReconnectPause, [&]() REQUIRES(mu_) { return stopped_; })) return;
    }
  }

  void SetOpen(bool open) {
    {
      const MutexLock lock(mu_);
      open_ = open;
    }
    wake_.NotifyAll();
  }

  // Sends from the queue while the stream is open.
  void Write(grpc::ClientReaderWriterInterface<v1alpha1::TrainerMessage, v1alpha1::DaemonMessage>&
                 stream) {
    MutexLock lock(mu_);
    while (open_) {
      if (queue_.empty() && stopped_) {
        lock.Unlock();
        stream.WritesDone();
        return;
      }
      if (queue_.empty()) {
        wake_.Wait(mu_, [this]() REQUIRES(mu_) { return !queue_.empty() || stopped_ || !open_; });
        continue;
      }
      const v1alpha1::TrainerMessage message = std::move(queue_.front());
      queue_.pop_front();
      lock.Unlock();
      const bool written = stream.Write(message);
      lock.Lock();
      if (!written) return;  // Serve sees the broken stream
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
  bool open_ GUARDED_BY(mu_) = false;  // there is a stream, and it has not ended
  std::deque<v1alpha1::TrainerMessage> queue_ GUARDED_BY(mu_);  // newest last
  absl::Duration silence_ GUARDED_BY(mu_);
  StopRequest request_ GUARDED_BY(mu_);
  int64_t save_request_ GUARDED_BY(mu_) = 0;
  bool stopped_ GUARDED_BY(mu_) = false;
  bool ended_ GUARDED_BY(mu_) = true;  // the thread serves no stream
};

DaemonLink::DaemonLink(const std::string& socket_path, std::string job_uid, int64_t epoch, int rank)
    : impl_(std::make_unique<Impl>(socket_path, std::move(job_uid), epoch, rank)) {}
DaemonLink::~DaemonLink() = default;
absl::StatusOr<v1alpha1::AttachResponse> DaemonLink::Attach(int64_t last_sequence) {
  return impl_->Attach(last_sequence);
}
void DaemonLink::Start() { impl_->Start(); }
bool DaemonLink::Close() { return impl_->Close(); }
void DaemonLink::Send(const v1alpha1::RankReport& report) { impl_->Send(report); }
void DaemonLink::Take(const v1alpha1::DaemonMessage& message) { impl_->Take(message); }
void DaemonLink::CountSilence(absl::Duration passed) { impl_->CountSilence(passed); }
absl::Duration DaemonLink::silence() const { return impl_->silence(); }
StopRequest DaemonLink::stop_request(absl::Duration lease) const {
  return impl_->stop_request(lease);
}
int64_t DaemonLink::save_request() const { return impl_->save_request(); }
Store& DaemonLink::store() { return impl_->store(); }

}  // namespace stretto::trainer

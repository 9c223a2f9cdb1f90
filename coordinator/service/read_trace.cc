// SPDX-License-Identifier: Apache-2.0

// Asks the worker of one rank after the other. The object holds itself until it has called `done`,
// and is destroyed by a task of its own, because the hub may be in one of its methods then.

#include "coordinator/service/read_trace.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/job_streams.h"
#include "proto/base/limits.h"

namespace stretto::service {
namespace {

class TraceReading final : public Stream, public RunFilePort {
 public:
  using Done = std::function<void(absl::StatusOr<TraceRecords>)>;

  static void Start(Hub& hub, const Call& call, const TraceQuery& query, Done done) {
    auto reading = std::make_shared<TraceReading>(hub, query, call.credential, std::move(done));
    reading->self_ = reading;
    reading->Begin(call);
  }

  TraceReading(Hub& hub, const TraceQuery& query, tls::Credential credential, Done done)
      : hub_(hub), query_(query), credential_(std::move(credential)), done_(std::move(done)) {}

  const tls::Credential& credential() const override { return credential_; }

  void Close(const absl::Status& status) override { End(status); }

  void OnTick() override {
    if (hub_.Monotonic() < deadline_) return;
    End(absl::DeadlineExceededError(
        Of(absl::StrCat("the worker has not sent it within ", limits::kPageSeconds.value, " s"))));
  }

  void OnLogData(const v1alpha1::LogData& data) override {
    if (data.stream() != stream_) return;
    if (!data.error().empty()) return End(absl::NotFoundError(Of(data.error())));
    if (data.has_record()) {
      bytes_ += static_cast<int64_t>(data.record().ByteSizeLong());
      if (bytes_ > limits::kPageTraceBytes.value) {
        return End(absl::ResourceExhaustedError(
            Of(absl::StrCat("found more than ", limits::kPageTraceBytes.value >> 20,
                            " MiB, expected less; stretto job trace writes it to a file"))));
      }
      records_.emplace_back();
      records_.back().set_rank(rank_);
      *records_.back().mutable_record() = data.record();
      hub_.GiveCredit(stream_, 1);
    }
    if (!data.end()) return;
    hub_.CloseLog(stream_, false);
    stream_ = 0;
    if (rank_ == last_rank_) return End(std::move(records_));
    ++rank_;
    Open();
  }

  void OnSessionEnded(int64_t stream) override {
    if (stream != stream_) return;
    End(WithReason(absl::UnavailableError(Of("the session of the worker that holds it has ended")),
                   "WORKER_NOT_CONNECTED"));
  }

 private:
  void Begin(const Call& call) {
    hub_.Add(this);
    deadline_ = hub_.Monotonic() + absl::Seconds(limits::kPageSeconds.value);
    user_ = UserStreams::UserOf(call);
    if (const absl::Status status = hub_.user_streams().Admit(user_); !status.ok())
      return End(status);
    admitted_ = true;
    absl::StatusOr<coordinator::JobRecord> job = LookUpJob(hub_, call, query_.name);
    if (!job.ok()) return End(job.status());
    job_ = *std::move(job);
    if (const absl::Status status = CheckHasRanks(job_); !status.ok()) return End(status);
    last_rank_ = std::min(query_.last_rank, job_.world_size() - 1);
    rank_ = std::min(query_.first_rank, last_rank_);
    Open();
  }

  void Open() {
    v1alpha1::LogRequest ask;
    ask.mutable_trace()->set_first_step(query_.first_step);
    ask.mutable_trace()->set_last_step(query_.last_step);
    ask.set_credit(static_cast<int32_t>(limits::kTraceCredit.value));
    const absl::StatusOr<int64_t> stream = hub_.OpenLog(job_, rank_, std::move(ask), this);
    if (!stream.ok()) return End(stream.status());
    stream_ = *stream;
  }

  void End(absl::StatusOr<TraceRecords> result) {
    if (done_ == nullptr) return;
    hub_.CloseLog(stream_, true);
    stream_ = 0;
    hub_.Remove(this);
    if (admitted_) hub_.user_streams().Release(user_);
    std::exchange(done_, nullptr)(std::move(result));
    hub_.loop().Post([self = std::move(self_)] {});
  }

  std::string Of(const std::string& what) const {
    return absl::StrCat("trace of rank ", rank_, " of job ", job_.id, ": ", what);
  }

  Hub& hub_;
  const TraceQuery query_;
  const tls::Credential credential_;  // of the reader
  Done done_;                         // null once called
  std::shared_ptr<TraceReading> self_;
  coordinator::JobRecord job_;
  int32_t rank_ = 0, last_rank_ = 0;
  int64_t stream_ = 0;  // of the current rank; 0: none
  absl::Duration deadline_;
  std::string user_;  // that the stream counts for
  bool admitted_ = false;
  int64_t bytes_ = 0;  // of the records
  TraceRecords records_;
};

}  // namespace

void ReadTrace(Hub& hub, const Call& call, const TraceQuery& query,
               std::function<void(absl::StatusOr<TraceRecords>)> done) {
  TraceReading::Start(hub, call, query, std::move(done));
}

}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0

// The stream of recorded steps of a job, rank after rank. The worker may send only as many records
// as it has credit for, and gets one more for each record that the client has taken, so a slow
// client delays nobody else.

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/job_streams.h"
#include "coordinator/service/validate_request.h"
#include "coordinator/service/write_stream.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace stretto::service {
namespace {

using coordinator::JobRecord;
using v1alpha1::StreamJobTraceResponse;

class Trace final : public WriteStream<StreamJobTraceResponse>, public RunFilePort {
 public:
  Trace(Hub& hub, Call call, const v1alpha1::StreamJobTraceRequest& request)
      : WriteStream(hub, std::move(call)), request_(request) {}

  void OnLogData(const v1alpha1::LogData& data) override {
    if (closing() || data.stream() != stream_) return;
    if (!data.error().empty()) return Close(absl::NotFoundError(Of(data.error())));
    if (data.has_record()) {
      StreamJobTraceResponse response;
      response.set_rank(rank_);
      *response.mutable_record() = data.record();
      waiting_.push_back(std::move(response));
    }
    // The queue is bounded by the credit alone, so a worker that ignores it must not fill our
    // memory.
    if (waiting_.size() > kCredit) {
      return Close(absl::InternalError(
          Of(absl::StrCat("the worker sent more than the ", kCredit, " records it may"))));
    }
    if (data.end()) {
      hub_.CloseLog(stream_, false);
      stream_ = 0;
    }
    Pump();
  }

  void OnSessionEnded(int64_t stream) override {
    if (stream != stream_) return;
    Close(WithReason(absl::UnavailableError(Of("the session of the worker that holds it has "
                                               "ended")),
                     "WORKER_NOT_CONNECTED"));
  }

 private:
  static constexpr size_t kCredit = limits::kTraceCredit.value;

  void Begin() override {
    auto record = LookUpJob(hub_, call_, request_.name());
    if (!record.ok()) return Close(record.status());
    job_ = *std::move(record);
    if (const absl::Status status = Validate(); !status.ok()) return Close(status);
    if (const absl::Status status = CheckHasRanks(job_); !status.ok()) return Close(status);
    rank_ = request_.rank();
    last_rank_ = request_.has_rank() ? rank_ : job_.world_size() - 1;
    Open();
  }

  absl::Status Validate() const {
    if (request_.has_rank() && (request_.rank() < 0 || request_.rank() >= job_.world_size())) {
      return FieldError("rank", absl::StrCat("found ", request_.rank(), ", expected 0 to ",
                                             job_.world_size() - 1));
    }
    if (request_.first_step() < 0) {
      return FieldError("first_step",
                        absl::StrCat("found ", request_.first_step(), ", expected 0 or more"));
    }
    if (request_.last_step() < 0 ||
        (request_.last_step() > 0 && request_.last_step() < request_.first_step())) {
      return FieldError("last_step",
                        absl::StrCat("found ", request_.last_step(), ", expected 0, or ",
                                     request_.first_step(), " or more"));
    }
    return absl::OkStatus();
  }

  void Open() {
    v1alpha1::LogRequest ask;
    ask.mutable_trace()->set_first_step(request_.first_step());
    ask.mutable_trace()->set_last_step(request_.last_step());
    ask.set_credit(static_cast<int32_t>(kCredit));
    const auto stream = hub_.OpenLog(job_, rank_, std::move(ask), this);
    if (!stream.ok()) return Close(stream.status());
    stream_ = *stream;
  }

  // A record has been taken, so the worker may send one more.
  void OnWritten() override {
    hub_.GiveCredit(stream_, 1);
    Pump();
  }

  void Pump() {
    if (busy()) return;
    if (!waiting_.empty()) {
      StreamJobTraceResponse response = std::move(waiting_.front());
      waiting_.pop_front();
      return Write(std::move(response));
    }
    // The next rank is opened only when the client has taken every record of this one.
    if (stream_ != 0) return;
    if (rank_ == last_rank_) return Close(absl::OkStatus());
    ++rank_;
    Open();
  }

  void OnClosing() override {
    hub_.CloseLog(stream_, true);
    waiting_.clear();
  }

  std::string Of(const std::string& what) const {
    return absl::StrCat("trace of rank ", rank_, " of job ", job_.id, ": ", what);
  }

  const v1alpha1::StreamJobTraceRequest request_;
  JobRecord job_;
  int32_t rank_ = 0, last_rank_ = 0;
  int64_t stream_ = 0;  // of the current rank; 0: it has ended
  std::deque<StreamJobTraceResponse> waiting_;
};

}  // namespace

absl::Status CheckHasRanks(const JobRecord& job) {
  RETURN_IF_ERROR(CheckNotRetired(job, "traces"));
  if (!job.ranks.empty()) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "job ", job.id, ": found ", coordinator::JobStateName(job.state),
                        " and never placed, expected a job that has trained")),
                    "JOB_NOT_PLACED", {{"job", job.id}});
}

grpc::ServerWriteReactor<StreamJobTraceResponse>* JobTraceStream(
    Hub& hub, Call call, const v1alpha1::StreamJobTraceRequest& request) {
  return Trace::Launch(std::make_shared<Trace>(hub, std::move(call), request));
}

}  // namespace stretto::service

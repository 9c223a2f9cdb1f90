// SPDX-License-Identifier: Apache-2.0

// Two streams. Watch sends a job whenever it differs from what was sent last, and its steps in
// order from the history. Logs asks the workers for the logs of the ranks and forwards their
// chunks. Both are bounded: steps are read from the history one at a time, and a client that reads
// logs too slowly is closed.

#include "coordinator/service/job_streams.h"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/validate_request.h"
#include "coordinator/service/write_stream.h"
#include "proto/base/limits.h"
#include "proto/logs/line_filter.h"

namespace stretto::service {
namespace {

using coordinator::JobRecord;
using v1alpha1::StreamJobLogsResponse;
using v1alpha1::WatchJobResponse;

class Watch final : public WriteStream<WatchJobResponse> {
 public:
  Watch(Hub& hub, Call call, const v1alpha1::WatchJobRequest& request)
      : WriteStream(hub, std::move(call)),
        name_(request.name()),
        last_step_(request.after_step()) {}

  void OnJobChanged() override { Pump(); }
  // Its place in the queue changes without an event of its own.
  void OnTick() override {
    if (sent_ && sent_->state == coordinator::JobState::kPending) Pump();
  }

 private:
  void Begin() override {
    const auto record = LookUpJob(hub_, call_, name_);
    if (!record.ok()) return Close(record.status());
    job_id_ = record->id;
    hub_.Listen(job_id_, this);
    Pump();
  }
  void OnWritten() override { Pump(); }

  // Changes of the job are sent first, except its end, which is sent after its last step.
  void Pump() {
    if (busy()) return;
    const auto record = hub_.FindJob(job_id_);
    if (!record) return Close(absl::NotFoundError(absl::StrCat("no job \"", job_id_, "\"")));
    const bool ended = coordinator::IsEnded(record->state);
    const int64_t sampled = hub_.HistoryOf(*record).sampled_step();
    const bool news = Differs(*record) || sampled != sampled_;
    // The end of a job is its last message unless it is also the first.
    if (news && (!ended || !sent_)) return WriteJob(*record);
    if (const auto step = hub_.HistoryOf(*record).NextStep(last_step_)) {
      last_step_ = step->step();
      WatchJobResponse response;
      *response.mutable_step() = *step;
      return Write(std::move(response));
    }
    if (news) return WriteJob(*record);
    if (ended) Close(absl::OkStatus());
  }

  bool Differs(JobRecord record) const {
    if (!sent_) return true;
    for (auto& rank : record.ranks) rank.last_step = 0;
    return record != *sent_;
  }

  void WriteJob(const JobRecord& record) {
    WatchJobResponse response;
    *response.mutable_job() = hub_.Describe(record);
    sampled_ = hub_.HistoryOf(record).sampled_step();
    sent_ = record;
    for (auto& rank : sent_->ranks) rank.last_step = 0;
    Write(std::move(response));
  }

  const std::string name_;
  std::string job_id_;
  int64_t last_step_;
  std::optional<JobRecord> sent_;  // last sent, without step numbers
  int64_t sampled_ = 0;            // the step of the newest texts that were sent
};

class Logs final : public WriteStream<StreamJobLogsResponse>, public RunFilePort {
 public:
  Logs(Hub& hub, Call call, const v1alpha1::StreamJobLogsRequest& request)
      : WriteStream(hub, std::move(call)), request_(request) {}

  void OnJobChanged() override {
    if (!opened_ && !closing()) Open();
  }

  void OnLogData(const v1alpha1::LogData& data) override {
    const auto it = open_.find(data.stream());
    if (it == open_.end() || closing()) return;
    const int32_t rank = it->second;
    if (!data.error().empty()) {
      return Close(absl::NotFoundError(
          absl::StrCat("log of rank ", rank, " of job ", job_id_, ": ", data.error())));
    }
    if (!data.data().empty()) {
      StreamJobLogsResponse response;
      response.set_rank(rank);
      response.set_data(data.data());
      response.mutable_end()->set_rank(rank);
      response.mutable_end()->set_epoch(epoch_.value());
      response.mutable_end()->set_offset(data.end_offset());
      waiting_bytes_ += data.data().size();
      waiting_.push_back(std::move(response));
    }
    if (waiting_bytes_ > kMaxWaitingBytes) {
      return Close(absl::ResourceExhaustedError(
          absl::StrCat("log of job ", job_id_, ": the client reads too slowly, found ",
                       waiting_bytes_, " bytes waiting, expected at most ", kMaxWaitingBytes)));
    }
    if (data.end()) {
      hub_.CloseLog(data.stream(), false);
      open_.erase(it);
    }
    Pump();
  }

  void OnSessionEnded(int64_t stream) override {
    const auto it = open_.find(stream);
    if (it == open_.end()) return;
    Close(WithReason(
        absl::UnavailableError(absl::StrCat("the session of the worker that holds the "
                                            "log of rank ",
                                            it->second, " of job ", job_id_, " has ended")),
        "WORKER_NOT_CONNECTED"));
  }

 private:
  static constexpr size_t kMaxWaitingBytes = limits::kLogReaderBytes.value;

  void Begin() override {
    const auto record = LookUpJob(hub_, call_, request_.name());
    if (!record.ok()) return Close(record.status());
    job_id_ = record->id;
    if (request_.has_rank() && (request_.rank() < 0 || request_.rank() >= record->world_size())) {
      return Close(FieldError("rank", absl::StrCat("found ", request_.rank(), ", expected 0 to ",
                                                   record->world_size() - 1)));
    }
    if (const absl::Status known = RefuseUnknownFields(request_); !known.ok()) return Close(known);
    if (const auto filter = LineFilter::Make(request_.selection()); !filter.ok()) {
      // The message begins with the field.
      const std::pair<std::string, std::string> fault =
          absl::StrSplit(filter.status().message(), absl::MaxSplits(": ", 1));
      return Close(FieldError("selection." + fault.first, fault.second));
    }
    hub_.Listen(job_id_, this);
    Open();
  }

  v1alpha1::LogRequest RequestFor(int32_t rank, bool first) const {
    v1alpha1::LogRequest log;
    log.set_follow(request_.follow());
    *log.mutable_selection() = request_.selection();
    // A later attempt has nothing but news.
    if (!first) log.mutable_selection()->clear_tail_lines();
    for (const v1alpha1::LogPosition& read : request_.after()) {
      if (read.rank() != rank) continue;
      log.mutable_selection()->clear_tail_lines();
      if (Epoch(read.epoch()) == epoch_) log.set_offset(read.offset());
    }
    return log;
  }

  // Asks the workers once the job has been placed, and again for each attempt of a job that may
  // restart.
  void Open() {
    const auto record = hub_.FindJob(job_id_);
    if (!record) return Close(absl::NotFoundError(absl::StrCat("no job \"", job_id_, "\"")));
    if (const absl::Status kept = CheckNotRetired(*record, "logs"); !kept.ok()) return Close(kept);
    if (record->ranks.empty() || record->epoch == epoch_) {
      if (!request_.follow() || coordinator::IsEnded(record->state)) Close(absl::OkStatus());
      return;
    }
    const bool first = epoch_ == Epoch();
    epoch_ = record->epoch;
    opened_ = true;
    for (int32_t rank = 0; rank < static_cast<int32_t>(record->ranks.size()); ++rank) {
      if (request_.has_rank() && request_.rank() != rank) continue;
      const auto stream = hub_.OpenLog(*record, rank, RequestFor(rank, first), this);
      if (!stream.ok()) return Close(stream.status());
      open_.emplace(*stream, rank);
    }
  }

  void OnWritten() override { Pump(); }

  void Pump() {
    if (busy()) return;
    if (!waiting_.empty()) {
      StreamJobLogsResponse response = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= response.data().size();
      return Write(std::move(response));
    }
    if (!opened_ || !open_.empty()) return;
    const auto record = hub_.FindJob(job_id_);
    if (!record || !record->restart) return Close(absl::OkStatus());
    opened_ = false;
    Open();
  }

  void OnClosing() override {
    for (const auto& [stream, rank] : open_) hub_.CloseLog(stream, true);
    open_.clear();
    waiting_.clear();
  }

  const v1alpha1::StreamJobLogsRequest request_;
  std::string job_id_;
  bool opened_ = false;
  Epoch epoch_;                      // of the attempt that was asked for last
  std::map<int64_t, int32_t> open_;  // stream to rank
  std::deque<StreamJobLogsResponse> waiting_;
  size_t waiting_bytes_ = 0;
};

}  // namespace

grpc::ServerWriteReactor<WatchJobResponse>* WatchJobStream(
    Hub& hub, Call call, const v1alpha1::WatchJobRequest& request) {
  return Watch::Launch(std::make_shared<Watch>(hub, std::move(call), request));
}

grpc::ServerWriteReactor<StreamJobLogsResponse>* JobLogsStream(
    Hub& hub, Call call, const v1alpha1::StreamJobLogsRequest& request) {
  return Logs::Launch(std::make_shared<Logs>(hub, std::move(call), request));
}

}  // namespace stretto::service

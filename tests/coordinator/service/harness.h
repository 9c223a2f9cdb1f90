// SPDX-License-Identifier: Apache-2.0
#pragma once
// A coordinator in this process, on a free port, and scripted workers that talk to it over real
// gRPC.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/service/server.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/base/limits.h"
#include "proto/base/version.h"
#include "stretto/v1alpha1/job.grpc.pb.h"
#include "stretto/v1alpha1/worker.grpc.pb.h"
#include "tests/golden_messages.h"

namespace stretto::service {

// Of every call: longer than any test, so that a bug is a failure and not a hang.
inline void SetDeadline(grpc::ClientContext* context, int seconds = 30) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(seconds));
}

inline google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

inline std::string ReasonOf(const grpc::Status& status) {
  google::rpc::ErrorInfo info;
  const google::rpc::Status details = DetailsOf(status);
  if (details.details_size() == 0 || !details.details(0).UnpackTo(&info)) return "(none)";
  EXPECT_EQ(info.domain(), "stretto.dev");
  return info.reason();
}

// After the reason: what the message names. Its words are those of the fixture's golden file.
#define EXPECT_REFUSED(status, code, reason, ...)        \
  do {                                                   \
    const grpc::Status refused = (status);               \
    EXPECT_EQ(refused.error_code(), grpc::code);         \
    EXPECT_EQ(ReasonOf(refused), reason);                \
    golden_.Add(refused.error_message(), {__VA_ARGS__}); \
  } while (false)

// Wraps a store that outlives the server, so that a test can restart it, and refuses the next
// commit when told to.
class BorrowedStore final : public coordinator::JobStore {
 public:
  BorrowedStore(coordinator::JobStore& store, std::atomic<bool>& refuse_next)
      : store_(store), refuse_next_(refuse_next) {}
  absl::StatusOr<coordinator::Snapshot> Load() override { return store_.Load(); }
  absl::Status Commit(const std::vector<coordinator::Record>& records) override {
    if (refuse_next_.exchange(false)) return absl::ResourceExhaustedError("disk full");
    return store_.Commit(records);
  }

 private:
  coordinator::JobStore& store_;
  std::atomic<bool>& refuse_next_;
};

inline v1alpha1::CreateJobRequest TinyJob(const std::string& id, int tp_size = 2) {
  v1alpha1::CreateJobRequest request;
  request.set_job_id(id);
  auto* spec = request.mutable_job()->mutable_spec();
  spec->mutable_model()->set_preset("gpt-tiny");
  spec->mutable_data()->set_prefix("text/corpus");
  spec->mutable_parallelism()->set_tp_size(tp_size);
  spec->set_steps(3);
  spec->set_micro_batch_size(2);
  return request;
}

// The server's side.
class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    golden_.Hide(kBuildVersion, "BUILD");
    Start();
  }

  void Start() {
    telemetry_ = std::make_unique<telemetry::Telemetry>();
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.tick = absl::Milliseconds(20);
    options.core.longest_round = absl::InfiniteDuration();  // the test's clock jumps
    options.core.keep_jobs = keep_jobs_;
    options.core.keep_retired = keep_retired_;
    options.core.quotas = quotas_;
    options.core.most_waiting = most_waiting_;
    options.core.most_waiting_bytes = most_waiting_bytes_;
    options.limits = limits_;
    auto server =
        Server::Start(options, std::make_unique<BorrowedStore>(*store_, refuse_next_commit_),
                      clock_, *telemetry_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
    jobs_ = v1alpha1::JobService::NewStub(channel_);
    cluster_ = v1alpha1::ClusterService::NewStub(channel_);
    workers_ = v1alpha1::WorkerService::NewStub(channel_);
  }
  void Restart() {
    server_.reset();
    Start();
  }

  static v1alpha1::CreateJobRequest Request(const std::string& id, int tp_size = 2) {
    return TinyJob(id, tp_size);
  }
  grpc::Status Create(const v1alpha1::CreateJobRequest& request, v1alpha1::Job* job) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return jobs_->CreateJob(&context, request, job);
  }
  v1alpha1::Job MustCreate(const std::string& id, int tp_size = 2) {
    v1alpha1::Job job;
    const grpc::Status status = Create(Request(id, tp_size), &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  grpc::Status Get(const std::string& name, v1alpha1::Job* job) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::GetJobRequest request;
    request.set_name(name);
    return jobs_->GetJob(&context, request, job);
  }
  v1alpha1::Job MustGet(const std::string& name) {
    v1alpha1::Job job;
    const grpc::Status status = Get(name, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  grpc::Status Cancel(const std::string& name, v1alpha1::Job* job) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::CancelJobRequest request;
    request.set_name(name);
    return jobs_->CancelJob(&context, request, job);
  }
  grpc::Status Delete(const std::string& name, v1alpha1::Job* job) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::DeleteJobRequest request;
    request.set_name(name);
    return jobs_->DeleteJob(&context, request, job);
  }
  // All that a watcher is sent until the stream ends.
  grpc::Status WatchToTheEnd(const std::string& name, int64_t after_step,
                             std::vector<v1alpha1::WatchJobResponse>* events) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::WatchJobRequest request;
    request.set_name(name);
    request.set_after_step(after_step);
    auto reader = jobs_->WatchJob(&context, request);
    v1alpha1::WatchJobResponse event;
    while (reader->Read(&event)) events->push_back(event);
    return reader->Finish();
  }

  GoldenMessages golden_{"stretto-coordinator"};
  FakeClock clock_{absl::FromUnixSeconds(1'800'000'000)};
  std::unique_ptr<coordinator::JobStore> store_ = coordinator::NewMemoryStore();
  std::atomic<bool> refuse_next_commit_ = false;
  int64_t keep_jobs_ = INT64_MAX;  // this and the next three as of the next Start
  int64_t keep_retired_ = INT64_MAX;
  int64_t most_waiting_ = limits::kWaitingJobs.value;
  int64_t most_waiting_bytes_ = limits::kWaitingSpecBytes.value;
  coordinator::Quotas quotas_;
  Limits limits_;
  std::unique_ptr<telemetry::Telemetry> telemetry_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1alpha1::JobService::Stub> jobs_;
  std::unique_ptr<v1alpha1::ClusterService::Stub> cluster_;
  std::unique_ptr<v1alpha1::WorkerService::Stub> workers_;
};

// One session of a worker, driven by the test.
class FakeWorker {
 public:
  FakeWorker(v1alpha1::WorkerService::Stub& stub, const std::string& id,
             const std::string& incarnation = "first", int seconds = 30) {
    SetDeadline(&context_, seconds);
    stream_ = stub.Session(&context_);
    auto* message = hello_.mutable_register_();
    message->set_worker_id(id);
    message->set_incarnation(incarnation);
    message->set_protocol_version(kProtocolVersion);
    message->set_build("test");
    message->set_host("node-" + incarnation);
    for (int slot = 0; slot < 2; ++slot) {
      auto* device = message->add_devices();
      device->set_slot(slot);
      device->set_kind(v1alpha1::DEVICE_CPU);
    }
  }

  ~FakeWorker() { context_.TryCancel(); }

  // Change before Register.
  v1alpha1::Register& hello() { return *hello_.mutable_register_(); }
  void Hold(const v1alpha1::Assign& assign, int rank, int64_t last_sequence) {
    auto* held = hello().add_held();
    held->set_job_id(assign.job_id());
    held->set_job_uid(assign.job_uid());
    held->set_epoch(assign.epoch());
    held->set_rank(rank);
    held->set_alive(true);
    held->set_last_sequence(last_sequence);
  }

  // Sends Register and returns the answer; an empty message if the session was refused.
  v1alpha1::CoordinatorMessage Register() {
    Write(hello_);
    return Next();
  }
  void Write(const v1alpha1::WorkerMessage& message) { stream_->Write(message); }

  // The next message that is no acknowledgement; empty when the session has ended.
  v1alpha1::CoordinatorMessage Next() {
    v1alpha1::CoordinatorMessage message;
    while (stream_->Read(&message)) {
      if (!message.has_ack()) return message;
      Note(message.ack());
    }
    return {};
  }
  v1alpha1::Assign Assigned() { return Next().assign(); }

  // Reads until everything up to `sequence` of the rank is acknowledged.
  void AwaitAck(int rank, int64_t sequence) {
    v1alpha1::CoordinatorMessage message;
    while (acked_[rank] < sequence && stream_->Read(&message)) {
      if (message.has_ack()) Note(message.ack());
    }
    EXPECT_GE(acked_[rank], sequence) << "rank " << rank;
  }

  // A report of `rank` with the given sequence number, for the test to fill in.
  static v1alpha1::WorkerMessage Report(const v1alpha1::Assign& assign, int rank,
                                        int64_t sequence) {
    v1alpha1::WorkerMessage message;
    auto* report = message.mutable_report();
    report->set_job_id(assign.job_id());
    report->set_job_uid(assign.job_uid());
    report->set_epoch(assign.epoch());
    report->set_rank(rank);
    report->set_sequence(sequence);
    return message;
  }
  void Prepared(const v1alpha1::Assign& assign, int rank) {
    v1alpha1::WorkerMessage message = Report(assign, rank, 1);
    message.mutable_report()->mutable_prepared()->mutable_time()->set_seconds(1'800'000'001);
    Write(message);
  }
  // Sequence number step + 1, as if nothing but Prepared came before.
  void Step(const v1alpha1::Assign& assign, int rank, int64_t step) {
    v1alpha1::WorkerMessage message = Report(assign, rank, step + 1);
    auto* report = message.mutable_report()->mutable_step();
    report->set_step(step);
    report->set_rank(rank);
    report->set_loss(10.0 - static_cast<double>(step));
    report->set_tokens(128);
    report->set_wall_seconds(0.5);
    report->mutable_end_time()->set_seconds(1'800'000'001 + step);
    auto* ledger = report->mutable_ledger();
    ledger->set_wall_seconds(0.5);
    ledger->set_steps(1);
    auto* entry = ledger->add_entries();
    entry->set_part(v1alpha1::Ledger::COMPUTE_ALONE);
    entry->set_phase("forward");
    entry->set_seconds(0.5);
    Write(message);
  }
  void Exit(const v1alpha1::Assign& assign, int rank, int64_t sequence, int signal = 0) {
    v1alpha1::WorkerMessage message = Report(assign, rank, sequence);
    auto* exit = message.mutable_report()->mutable_exit();
    exit->set_signal(signal);
    exit->set_reason(signal == 0 ? "Completed" : "Killed");
    exit->set_step(sequence - 2);
    exit->mutable_time()->set_seconds(1'800'000'100);
    Write(message);
  }
  // Both ranks of a two-rank job from the start to the end of its three steps.
  void RunToTheEnd(const v1alpha1::Assign& assign) {
    for (int rank : {0, 1}) Prepared(assign, rank);
    for (int64_t step : {1, 2, 3}) {
      for (int rank : {0, 1}) Step(assign, rank, step);
    }
    for (int rank : {0, 1}) Exit(assign, rank, 5);
    for (int rank : {0, 1}) AwaitAck(rank, 5);
  }

  // Reads until the coordinator asks about a new job, and answers.
  v1alpha1::Inspect AnswerInspect(const v1alpha1::Inspection& found = {}) {
    v1alpha1::CoordinatorMessage message = Next();
    while (message.message_case() != v1alpha1::CoordinatorMessage::MESSAGE_NOT_SET &&
           !message.has_inspect()) {
      message = Next();
    }
    v1alpha1::WorkerMessage answer;
    *answer.mutable_inspection() = found;
    answer.mutable_inspection()->set_id(message.inspect().id());
    Write(answer);
    return message.inspect();
  }

  // Breaks the session off and returns how it ended.
  grpc::Status Drop() {
    context_.TryCancel();
    return stream_->Finish();
  }
  // How the coordinator ended it.
  grpc::Status Ended() {
    EXPECT_EQ(Next().message_case(), v1alpha1::CoordinatorMessage::MESSAGE_NOT_SET);
    return stream_->Finish();
  }

 private:
  void Note(const v1alpha1::ReportAck& ack) {
    EXPECT_GT(ack.sequence(), 0);
    acked_[ack.rank()] = std::max(acked_[ack.rank()], ack.sequence());
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1alpha1::WorkerMessage, v1alpha1::CoordinatorMessage>>
      stream_;
  v1alpha1::WorkerMessage hello_;
  std::map<int, int64_t> acked_;
};

// Creates with validate_only, for which the coordinator asks `worker`.
inline grpc::Status DryRun(v1alpha1::JobService::Stub& jobs, FakeWorker& worker,
                           const v1alpha1::CreateJobRequest& request, v1alpha1::Job* job,
                           const v1alpha1::Inspection& found = {},
                           v1alpha1::Inspect* asked = nullptr) {
  job->Clear();
  grpc::ClientContext context;
  SetDeadline(&context);
  auto call =
      std::async(std::launch::async, [&] { return jobs.CreateJob(&context, request, job); });
  const v1alpha1::Inspect question = worker.AnswerInspect(found);
  if (asked != nullptr) *asked = question;
  return call.get();
}

}  // namespace stretto::service

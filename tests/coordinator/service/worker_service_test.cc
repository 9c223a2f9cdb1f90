// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/version.h"
#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using v1alpha1::CoordinatorMessage;
using v1alpha1::Job;
using v1alpha1::WorkerMessage;

class WorkerServiceTest : public ServiceTest {
 protected:
  v1alpha1::ListWorkersResponse ListWorkers(int page_size, const std::string& token) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ListWorkersRequest request;
    request.set_page_size(page_size);
    request.set_page_token(token);
    v1alpha1::ListWorkersResponse response;
    EXPECT_TRUE(cluster_->ListWorkers(&context, request, &response).ok());
    return response;
  }
  grpc::Status Set(const std::string& uid, int64_t epoch, const std::string& key,
                   const std::string& value) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::StoreSetRequest request;
    request.set_job_uid(uid);
    request.set_epoch(epoch);
    request.set_key(key);
    request.set_value(value);
    v1alpha1::StoreSetResponse response;
    return workers_->StoreSet(&context, request, &response);
  }
  grpc::Status Get(const std::string& uid, int64_t epoch, const std::string& key,
                   std::string* value, absl::Duration deadline = absl::Seconds(30)) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline));
    v1alpha1::StoreGetRequest request;
    request.set_job_uid(uid);
    request.set_epoch(epoch);
    request.set_key(key);
    v1alpha1::StoreGetResponse response;
    const grpc::Status status = workers_->StoreGet(&context, request, &response);
    *value = response.value();
    return status;
  }
  // Reads a log stream to its end.
  grpc::Status Logs(const v1alpha1::StreamJobLogsRequest& request,
                    std::map<int, std::string>* text) {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto reader = jobs_->StreamJobLogs(&context, request);
    v1alpha1::StreamJobLogsResponse response;
    while (reader->Read(&response)) (*text)[response.rank()] += response.data();
    return reader->Finish();
  }
};

TEST_F(WorkerServiceTest, RegisteredWorkersAreListedInPages) {
  FakeWorker a(*workers_, "a"), b(*workers_, "b");
  const CoordinatorMessage welcome = a.Register();
  EXPECT_EQ(welcome.registered().lease().seconds(), 10);
  EXPECT_EQ(welcome.registered().heartbeat_interval().seconds(), 2);
  b.Register();
  const v1alpha1::ListWorkersResponse first = ListWorkers(1, "");
  ASSERT_EQ(first.workers_size(), 1);
  EXPECT_EQ(first.workers(0).name(), "workers/a");
  EXPECT_EQ(first.workers(0).state(), v1alpha1::Worker::READY);
  EXPECT_EQ(first.workers(0).slots(), 2);
  EXPECT_EQ(first.workers(0).free_slots(), 2);
  const v1alpha1::ListWorkersResponse second = ListWorkers(1, first.next_page_token());
  ASSERT_EQ(second.workers_size(), 1);
  EXPECT_EQ(second.workers(0).name(), "workers/b");
  EXPECT_EQ(second.next_page_token(), "");
}

TEST_F(WorkerServiceTest, AnotherProtocolVersionIsRefusedNamingBoth) {
  FakeWorker worker(*workers_, "w0");
  worker.hello().set_protocol_version(7);
  worker.Register();
  EXPECT_REFUSED(worker.Ended(), StatusCode::FAILED_PRECONDITION, "PROTOCOL_VERSION_MISMATCH",
                 "worker \"w0\": ", "found protocol version 7 (build test)",
                 absl::StrCat("expected ", kProtocolVersion), kBuildVersion);
}

TEST_F(WorkerServiceTest, AWorkerOfAnotherClusterIsRefusedAndOneOfThisIsToldItsId) {
  FakeWorker first(*workers_, "w1");
  const std::string id = first.Register().registered().cluster_id();
  EXPECT_NE(id, "");
  golden_.Hide(id, "CLUSTER");
  FakeWorker stranger(*workers_, "w0");
  stranger.hello().set_cluster_id("another");
  stranger.Register();
  EXPECT_REFUSED(stranger.Ended(), StatusCode::PERMISSION_DENIED, "CLUSTER_MISMATCH",
                 "worker \"w0\" belongs to cluster another", id);
  FakeWorker ahead(*workers_, "w2");
  ahead.hello().set_cluster_id(id);
  ahead.hello().set_newest_epoch(1'000);
  ahead.Register();
  EXPECT_REFUSED(ahead.Ended(), StatusCode::PERMISSION_DENIED, "CLUSTER_MISMATCH", "epoch 1000",
                 "--restored");
}

TEST_F(WorkerServiceTest, SecondDaemonWithTheSameNameIsRefused) {
  FakeWorker first(*workers_, "w0", "first"), second(*workers_, "w0", "second");
  ASSERT_TRUE(first.Register().has_registered());
  second.Register();
  const grpc::Status status = second.Ended();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ReasonOf(status), "WORKER_NAME_TAKEN");
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("w0"));
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("node-first"));
}

TEST_F(WorkerServiceTest, NewerSessionOfTheSameDaemonTakesOver) {
  FakeWorker old(*workers_, "w0"), renewed(*workers_, "w0");
  ASSERT_TRUE(old.Register().has_registered());
  ASSERT_TRUE(renewed.Register().has_registered());
  EXPECT_REFUSED(old.Ended(), StatusCode::ABORTED, "ABORTED", "\"w0\"");
  EXPECT_EQ(ListWorkers(0, "").workers(0).state(), v1alpha1::Worker::READY);
}

TEST_F(WorkerServiceTest, FaultyDevicesAreShownAndTakeNoJob) {
  FakeWorker worker(*workers_, "w0");
  worker.hello().mutable_devices(1)->set_fault("Xid 79");
  worker.Register();
  Job job;
  EXPECT_REFUSED(Create(Request("gpt", 2), &job), StatusCode::FAILED_PRECONDITION,
                 "NOT_ENOUGH_SLOTS", "\"gpt\"", "2 slots", "has 1 on 1", "1 faulty");
  const v1alpha1::Worker shown = ListWorkers(0, "").workers(0);
  EXPECT_EQ(shown.devices(1).fault(), "Xid 79");
  EXPECT_EQ(shown.free_slots(), 1);
}

TEST_F(WorkerServiceTest, HeartbeatsTellTheHealthOfDevices) {
  FakeWorker worker(*workers_, "w0");
  worker.hello().mutable_devices(0)->set_kind(v1alpha1::DEVICE_CUDA);
  worker.hello().mutable_devices(1)->set_kind(v1alpha1::DEVICE_CUDA);
  worker.hello().mutable_devices(0)->set_fault("Xid 79");
  worker.Register();
  WorkerMessage message;
  message.mutable_heartbeat()->add_health()->set_slot(1);
  message.mutable_heartbeat()->mutable_health(0)->set_fault("lost");
  worker.Write(message);
  message.mutable_heartbeat()->mutable_health(0)->set_slot(2);
  worker.Write(message);
  EXPECT_REFUSED(worker.Ended(), StatusCode::INVALID_ARGUMENT, "INVALID_ARGUMENT", "\"w0\"",
                 "slot 2");
  const v1alpha1::Worker shown = ListWorkers(0, "").workers(0);
  EXPECT_EQ(shown.devices(0).fault(), "Xid 79");
  EXPECT_EQ(shown.devices(1).fault(), "lost");
}

TEST_F(WorkerServiceTest, FirstMessageMustBeRegister) {
  FakeWorker worker(*workers_, "w0");
  WorkerMessage message;
  message.mutable_heartbeat();
  worker.Write(message);
  EXPECT_REFUSED(worker.Ended(), StatusCode::INVALID_ARGUMENT, "REGISTER_EXPECTED",
                 "session: ", "Register");
}

TEST_F(WorkerServiceTest, SecondRegisterEndsTheSession) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  WorkerMessage message;
  *message.mutable_register_() = worker.hello();
  worker.Write(message);
  EXPECT_REFUSED(worker.Ended(), StatusCode::INVALID_ARGUMENT, "INVALID_ARGUMENT", "worker w0",
                 "Heartbeat");
}

TEST_F(WorkerServiceTest, BadNameIsRefused) {
  FakeWorker worker(*workers_, "No Name");
  worker.Register();
  EXPECT_EQ(worker.Ended().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerServiceTest, SilentWorkerLosesItsSessionWhenTheLeaseEnds) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  clock_.Advance(absl::Seconds(11));
  EXPECT_REFUSED(worker.Ended(), StatusCode::UNAVAILABLE, "UNAVAILABLE", "\"w0\"", "for 10s");
  EXPECT_EQ(ListWorkers(0, "").workers(0).state(), v1alpha1::Worker::LOST);
}

TEST_F(WorkerServiceTest, ReportsKeepAWorkerWhoseHeartbeatsWaitBehindThem) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt", 1);
  const v1alpha1::Assign assign = worker.Assigned();
  worker.Prepared(assign, 0);
  worker.AwaitAck(0, 1);
  for (int64_t step : {1, 2, 3}) {
    clock_.Advance(absl::Seconds(6));
    worker.Step(assign, 0, step);
    worker.AwaitAck(0, step + 1);
    EXPECT_EQ(ListWorkers(0, "").workers(0).state(), v1alpha1::Worker::READY);
  }
}

// The clock stands still from the arrival of a message to the renewal, so no time passes; a
// Register begins a lease and renews none.
TEST_F(WorkerServiceTest, EveryHeartbeatIsMeasuredOnce) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  WorkerMessage heartbeat;
  heartbeat.mutable_heartbeat();
  for (int i = 0; i < 3; ++i) {
    worker.Write(heartbeat);
    const std::string counted =
        absl::StrCat("stretto_worker_heartbeat_delay_seconds_count ", i + 1, "\n");
    while (!absl::StrContains(telemetry_->Text(), counted)) std::this_thread::yield();
  }
  EXPECT_THAT(
      telemetry_->Text(),
      ::testing::HasSubstr("stretto_worker_heartbeat_delay_seconds_bucket{le=\"0.001\"} 3"));
}

TEST_F(WorkerServiceTest, OnlyALostWorkerWithoutRanksIsForgotten) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt", 1);
  worker.Assigned();
  const auto forget = [this](const std::string& name) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ForgetWorkerRequest request;
    request.set_name(name);
    v1alpha1::Worker was;
    const grpc::Status status = cluster_->ForgetWorker(&context, request, &was);
    if (status.ok()) {
      EXPECT_EQ(was.name(), name);
    }
    return status;
  };
  EXPECT_REFUSED(forget("workers/w0"), StatusCode::FAILED_PRECONDITION, "WORKER_IN_USE", "\"w0\"",
                 "READY");
  EXPECT_REFUSED(forget("workers/w1"), StatusCode::NOT_FOUND, "WORKER_NOT_FOUND", "\"w1\"");
  clock_.Advance(absl::Seconds(11));
  worker.Ended();
  EXPECT_REFUSED(forget("workers/w0"), StatusCode::FAILED_PRECONDITION, "WORKER_IN_USE", "\"w0\"",
                 "job gpt");
  v1alpha1::Job job;
  ASSERT_TRUE(Cancel("jobs/gpt", &job).ok());
  while (MustGet("jobs/gpt").state() != v1alpha1::Job::CANCELLED) {
    clock_.Advance(absl::Seconds(20));  // its rank is given up at the next tick
  }
  EXPECT_TRUE(forget("workers/w0").ok());
  EXPECT_EQ(ListWorkers(0, "").workers_size(), 0);
  Restart();
  EXPECT_EQ(ListWorkers(0, "").workers_size(), 0);
}

TEST_F(WorkerServiceTest, StrangerThatSaysNothingIsCutOff) {
  FakeWorker worker(*workers_, "w0");
  auto ended = std::async(std::launch::async, [&worker] { return worker.Ended(); });
  // Its time starts when the coordinator takes the session up: let time pass until that has run
  // out.
  while (ended.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    clock_.Advance(absl::Seconds(11));
    ListWorkers(0, "");
  }
  EXPECT_REFUSED(ended.get(), StatusCode::DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED",
                 "session: ", "Register", "within 10s");
}

TEST_F(WorkerServiceTest, ReconnectReplaysWithoutGapsOrRepeats) {
  auto first = std::make_unique<FakeWorker>(*workers_, "w0");
  first->Register();
  v1alpha1::Job created;
  ASSERT_TRUE(Create(Request("gpt"), &created).ok());
  const v1alpha1::Assign assign = first->Assigned();
  for (int rank : {0, 1}) first->Prepared(assign, rank);
  first->Step(assign, 0, 1);
  first->AwaitAck(0, 2);
  first->Drop();

  FakeWorker second(*workers_, "w0");
  for (int rank : {0, 1}) second.Hold(assign, rank, 2);
  const CoordinatorMessage reply = second.Register();
  ASSERT_EQ(reply.registered().held_size(), 2);
  EXPECT_EQ(reply.registered().held(0).acked_sequence(), 2);
  second.RunToTheEnd(assign);  // sends all from the start again
  std::vector<v1alpha1::WatchJobResponse> events;
  EXPECT_TRUE(WatchToTheEnd("jobs/gpt", 0, &events).ok());
  std::vector<int64_t> steps;
  for (const auto& event : events) {
    if (event.has_step()) steps.push_back(event.step().step());
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(1, 2, 3));
  EXPECT_DOUBLE_EQ(MustGet("jobs/gpt").progress().ledger().wall_seconds(), 1.5);
}

TEST_F(WorkerServiceTest, GapInTheReportsEndsTheSession) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  worker.Step(assign, 0, 5);
  const grpc::Status status = worker.Ended();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);  // so the daemon comes back
  golden_.Add(status.error_message(), {"report 1"});
}

TEST_F(WorkerServiceTest, FullDiskEndsTheSessionAndTheReplayLosesNothing) {
  FakeWorker first(*workers_, "w0");
  first.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = first.Assigned();
  refuse_next_commit_ = true;
  first.Prepared(assign, 0);
  EXPECT_REFUSED(first.Ended(), StatusCode::RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED", "disk full");
  FakeWorker second(*workers_, "w0");
  for (int rank : {0, 1}) second.Hold(assign, rank, 1);
  EXPECT_EQ(second.Register().registered().held(0).acked_sequence(), 0);
  second.RunToTheEnd(assign);
  EXPECT_EQ(MustGet("jobs/gpt").state(), Job::SUCCEEDED);
}

TEST_F(WorkerServiceTest, RendezvousIsWriteOnceAndWaits) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  const Job job = MustCreate("gpt");
  const std::string uid = job.uid();
  const int64_t epoch = job.epoch();
  std::string value;
  auto waiting = std::async(std::launch::async, [&] { return Get(uid, epoch, "rank0", &value); });
  EXPECT_TRUE(Set(uid, epoch, "rank0", "10.0.0.1:7").ok());
  EXPECT_TRUE(waiting.get().ok());
  EXPECT_EQ(value, "10.0.0.1:7");
  EXPECT_TRUE(Set(uid, epoch, "rank0", "10.0.0.1:7").ok());
  EXPECT_REFUSED(Set(uid, epoch, "rank0", "other"), StatusCode::ALREADY_EXISTS, "ALREADY_EXISTS",
                 "\"rank0\"");
  golden_.Add(Set(uid, epoch, "", "x").error_message(), {"key: found 0 bytes", "1 to 512"});
  golden_.Add(Set(uid, epoch, "big", std::string((1 << 20) + 1, 'x')).error_message(),
              {"\"big\"", "found 1048577 bytes", "1048576"});
  EXPECT_EQ(Get(uid, epoch, "never", &value, absl::Milliseconds(50)).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);

  const grpc::Status stale = Set(uid, epoch + 1, "rank0", "x");
  EXPECT_EQ(stale.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(stale), "STALE_EPOCH");
  EXPECT_EQ(Get("none", epoch, "rank0", &value).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(WorkerServiceTest, RendezvousEndsWithTheAttempt) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  const Job job = MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  std::string value;
  auto waiting =
      std::async(std::launch::async, [&] { return Get(job.uid(), job.epoch(), "rank0", &value); });
  for (int rank : {0, 1}) worker.Exit(assign, rank, 1, 9);
  // Aborted whether the call came before the end or after it.
  EXPECT_EQ(waiting.get().error_code(), grpc::StatusCode::ABORTED);
}

TEST_F(WorkerServiceTest, LogsComeFromTheWorkersThatHoldThem) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.Assigned();
  v1alpha1::StreamJobLogsRequest request;
  request.set_name("jobs/gpt");
  std::map<int, std::string> text;
  auto reading = std::async(std::launch::async, [&] { return Logs(request, &text); });
  for (int i = 0; i < 2; ++i) {
    const v1alpha1::LogRequest asked = worker.Next().log_request();
    EXPECT_FALSE(asked.follow());
    WorkerMessage data;
    data.mutable_log_data()->set_stream(asked.stream());
    for (const char* line : {"one\n", "two\n"}) {
      data.mutable_log_data()->set_data(line);
      worker.Write(data);
    }
    data.mutable_log_data()->clear_data();
    data.mutable_log_data()->set_end(true);
    worker.Write(data);
  }
  EXPECT_TRUE(reading.get().ok());
  EXPECT_EQ(text[0], "one\ntwo\n");
  EXPECT_EQ(text[1], "one\ntwo\n");
}

TEST_F(WorkerServiceTest, LogsThatCannotBeHadSayWhy) {
  auto worker = std::make_unique<FakeWorker>(*workers_, "w0");
  worker->Register();
  MustCreate("gpt");
  worker->Assigned();
  v1alpha1::StreamJobLogsRequest request;
  request.set_name("jobs/gpt");
  request.set_rank(2);
  std::map<int, std::string> text;
  EXPECT_REFUSED(Logs(request, &text), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "rank: ", "found 2", "0 to 1");
  request.set_rank(1);
  auto reading = std::async(std::launch::async, [&] { return Logs(request, &text); });
  WorkerMessage data;
  data.mutable_log_data()->set_stream(worker->Next().log_request().stream());
  data.mutable_log_data()->set_error("no such file");
  worker->Write(data);
  EXPECT_REFUSED(reading.get(), StatusCode::NOT_FOUND, "NOT_FOUND", "rank 1", "job gpt");
  EXPECT_TRUE(worker->Next().log_request().cancel());

  reading = std::async(std::launch::async, [&] { return Logs(request, &text); });
  EXPECT_EQ(worker->Next().log_request().rank(), 1);
  worker->Drop();
  EXPECT_REFUSED(reading.get(), StatusCode::UNAVAILABLE, "WORKER_NOT_CONNECTED", "rank 1",
                 "job gpt");
  EXPECT_REFUSED(Logs(request, &text), StatusCode::UNAVAILABLE, "WORKER_NOT_CONNECTED", "worker w0",
                 "rank 1", "job gpt");
}

TEST_F(WorkerServiceTest, FollowedLogOfAPendingJobStartsWhenItIsPlaced) {
  MustCreate("gpt");
  v1alpha1::StreamJobLogsRequest request;
  request.set_name("jobs/gpt");
  std::map<int, std::string> text;
  EXPECT_TRUE(Logs(request, &text).ok());  // nothing yet, and not asked to wait
  request.set_rank(0);
  request.set_follow(true);
  auto reading = std::async(std::launch::async, [&] { return Logs(request, &text); });
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  worker.Assigned();
  const v1alpha1::LogRequest asked = worker.Next().log_request();
  EXPECT_TRUE(asked.follow());
  WorkerMessage data;
  data.mutable_log_data()->set_stream(asked.stream());
  data.mutable_log_data()->set_data("late\n");
  data.mutable_log_data()->set_end(true);
  worker.Write(data);
  EXPECT_TRUE(reading.get().ok());
  EXPECT_EQ(text[0], "late\n");
}

TEST_F(WorkerServiceTest, SlowLogReaderIsCutOffAtItsBound) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.Assigned();
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::StreamJobLogsRequest request;
  request.set_name("jobs/gpt");
  request.set_rank(0);
  auto reader = jobs_->StreamJobLogs(&context, request);  // and reads nothing
  const int64_t stream = worker.Next().log_request().stream();
  WorkerMessage data;
  data.mutable_log_data()->set_stream(stream);
  data.mutable_log_data()->set_data(std::string(1 << 16, 'x'));
  for (int i = 0; i < 1024; ++i) worker.Write(data);
  EXPECT_TRUE(worker.Next().log_request().cancel());
  v1alpha1::StreamJobLogsResponse response;
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  golden_.Add(status.error_message(), {"job gpt", "slow"});
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0

// Recorded steps on their way from workers to a client.
#include <gmock/gmock.h>

#include <future>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using v1alpha1::LogRequest;
using v1alpha1::StreamJobTraceRequest;
using v1alpha1::WorkerMessage;

class JobTraceTest : public ServiceTest {
 protected:
  static StreamJobTraceRequest Of(const std::string& name) {
    StreamJobTraceRequest request;
    request.set_name(name);
    return request;
  }

  // Reads to the end: "RANK STEP".
  grpc::Status Read(const StreamJobTraceRequest& request, std::vector<std::string>* steps) {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto reader = jobs_->StreamJobTrace(&context, request);
    v1alpha1::StreamJobTraceResponse response;
    while (reader->Read(&response)) {
      steps->push_back(absl::StrCat(response.rank(), " ", response.record().step().step()));
    }
    return reader->Finish();
  }
  std::future<grpc::Status> ReadLater(const StreamJobTraceRequest& request) {
    return std::async(std::launch::async, [this, request] { return Read(request, &steps_); });
  }

  static void SendStep(FakeWorker& worker, int64_t stream, int64_t step) {
    WorkerMessage message;
    message.mutable_log_data()->set_stream(stream);
    message.mutable_log_data()->mutable_record()->mutable_step()->set_step(step);
    worker.Write(message);
  }
  static void SendEnd(FakeWorker& worker, int64_t stream, const std::string& error = "") {
    WorkerMessage message;
    message.mutable_log_data()->set_stream(stream);
    message.mutable_log_data()->set_end(true);
    message.mutable_log_data()->set_error(error);
    worker.Write(message);
  }

  std::vector<std::string> steps_;
};

TEST_F(JobTraceTest, ComesRankAfterRankAndRenewsTheWorkersCredit) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  const std::string uid = MustCreate("gpt").uid();
  worker.Assigned();
  StreamJobTraceRequest request = Of("jobs/gpt");
  request.set_first_step(3);
  request.set_last_step(4);
  auto reading = ReadLater(request);
  for (int rank : {0, 1}) {
    const LogRequest asked = worker.Next().log_request();
    EXPECT_EQ(asked.job_uid(), uid);
    EXPECT_EQ(asked.rank(), rank);
    EXPECT_EQ(asked.trace().first_step(), 3);
    EXPECT_EQ(asked.trace().last_step(), 4);
    EXPECT_EQ(asked.credit(), 16);
    for (int64_t step : {3, 4}) {
      SendStep(worker, asked.stream(), step);
      const LogRequest more = worker.Next().log_request();
      EXPECT_EQ(more.stream(), asked.stream());
      EXPECT_EQ(more.credit(), 1);
    }
    SendEnd(worker, asked.stream());
  }
  EXPECT_TRUE(reading.get().ok());
  EXPECT_THAT(steps_, ElementsAre("0 3", "0 4", "1 3", "1 4"));
}

TEST_F(JobTraceTest, OfOneRankAsksThatOneOnly) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.Assigned();
  StreamJobTraceRequest request = Of("jobs/gpt");
  request.set_rank(1);
  auto reading = ReadLater(request);
  const LogRequest asked = worker.Next().log_request();
  EXPECT_EQ(asked.rank(), 1);
  SendEnd(worker, asked.stream());
  EXPECT_TRUE(reading.get().ok());
  EXPECT_THAT(steps_, IsEmpty());
}

TEST_F(JobTraceTest, WhatCannotBeHadSaysWhy) {
  EXPECT_REFUSED(Read(Of("jobs/none"), &steps_), StatusCode::NOT_FOUND, "JOB_NOT_FOUND",
                 "\"none\"");
  MustCreate("gpt");
  EXPECT_REFUSED(Read(Of("jobs/gpt"), &steps_), StatusCode::FAILED_PRECONDITION, "JOB_NOT_PLACED",
                 "found PENDING", "job gpt");
  StreamJobTraceRequest request = Of("jobs/gpt");
  request.set_rank(2);
  EXPECT_REFUSED(Read(request, &steps_), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "rank: ", "found 2", "0 to 1");
  request.set_rank(1);
  request.set_first_step(-1);
  EXPECT_REFUSED(Read(request, &steps_), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "first_step: ", "found -1");
  request.set_first_step(5);
  request.set_last_step(4);
  EXPECT_REFUSED(Read(request, &steps_), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "last_step: ", "found 4");
  request.clear_last_step();

  FakeWorker worker(*workers_, "w0");
  worker.Register();
  worker.Assigned();
  auto reading = ReadLater(request);
  SendEnd(worker, worker.Next().log_request().stream(),
          "found steps 1 to 4 kept, expected some of 5 or later");
  EXPECT_REFUSED(reading.get(), StatusCode::NOT_FOUND, "NOT_FOUND", "rank 1", "job gpt", "1 to 4",
                 "of 5");
  EXPECT_TRUE(worker.Next().log_request().cancel());

  reading = ReadLater(request);
  EXPECT_EQ(worker.Next().log_request().rank(), 1);
  worker.Drop();
  EXPECT_REFUSED(reading.get(), StatusCode::UNAVAILABLE, "WORKER_NOT_CONNECTED", "rank 1",
                 "job gpt");
  EXPECT_REFUSED(Read(request, &steps_), StatusCode::UNAVAILABLE, "WORKER_NOT_CONNECTED",
                 "worker w0", "rank 1", "job gpt");
  EXPECT_THAT(steps_, IsEmpty());
}

TEST_F(JobTraceTest, AClientThatLeavesCancelsTheWorkersStream) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.Assigned();
  grpc::ClientContext context;
  SetDeadline(&context);
  auto reader = jobs_->StreamJobTrace(&context, Of("jobs/gpt"));
  const LogRequest asked = worker.Next().log_request();
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::CANCELLED);
  const LogRequest cancel = worker.Next().log_request();
  EXPECT_EQ(cancel.stream(), asked.stream());
  EXPECT_TRUE(cancel.cancel());
}

TEST_F(JobTraceTest, AWorkerThatOverrunsItsCreditIsCutOff) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.Assigned();
  grpc::ClientContext context;
  SetDeadline(&context);
  auto reader = jobs_->StreamJobTrace(&context, Of("jobs/gpt"));  // and reads nothing
  const int64_t stream = worker.Next().log_request().stream();
  WorkerMessage message;
  message.mutable_log_data()->set_stream(stream);
  for (int lane = 0; lane < 1024; ++lane) {
    message.mutable_log_data()->mutable_record()->mutable_program()->add_lanes(
        std::string(256, 'x'));
  }
  for (int i = 0; i < 256; ++i) worker.Write(message);
  LogRequest last;
  while (!last.cancel()) last = worker.Next().log_request();
  v1alpha1::StreamJobTraceResponse response;
  while (reader->Read(&response)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::INTERNAL);
  golden_.Add(status.error_message(), {"rank 0", "job gpt", "16 records"});
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using grpc::StatusCode;

class SelectedLogsTest : public ServiceTest {
 protected:
  // Reads a stream of logs to its end.
  grpc::Status Ask(const v1alpha1::StreamJobLogsRequest& request) {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto reader = jobs_->StreamJobLogs(&context, request);
    v1alpha1::StreamJobLogsResponse response;
    while (reader->Read(&response)) {
    }
    return reader->Finish();
  }
};

TEST_F(SelectedLogsTest, TheWorkerSelectsLinesAndContinuesBehindThoseThatWereRead) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  v1alpha1::StreamJobLogsRequest request;
  request.set_name("jobs/gpt");
  request.set_rank(1);
  request.mutable_selection()->set_tail_lines(7);
  request.mutable_selection()->set_grep("WARN");
  const auto ask = [&] {
    grpc::ClientContext context;
    SetDeadline(&context);
    auto reader = jobs_->StreamJobLogs(&context, request);
    const v1alpha1::LogRequest asked = worker.Next().log_request();
    v1alpha1::WorkerMessage data;
    data.mutable_log_data()->set_stream(asked.stream());
    data.mutable_log_data()->set_data("WARN\n");
    data.mutable_log_data()->set_end_offset(123);
    data.mutable_log_data()->set_end(true);
    worker.Write(data);
    v1alpha1::StreamJobLogsResponse response;
    EXPECT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.end().rank(), 1);
    EXPECT_EQ(response.end().epoch(), assign.epoch());
    EXPECT_EQ(response.end().offset(), 123);
    EXPECT_FALSE(reader->Read(&response));
    EXPECT_TRUE(reader->Finish().ok());
    return asked;
  };
  v1alpha1::LogRequest asked = ask();
  EXPECT_EQ(asked.selection().tail_lines(), 7);
  EXPECT_EQ(asked.selection().grep(), "WARN");
  EXPECT_EQ(asked.offset(), 0);
  v1alpha1::LogPosition& read = *request.add_after();
  read.set_rank(1);
  read.set_epoch(assign.epoch());
  read.set_offset(99);
  asked = ask();
  EXPECT_EQ(asked.offset(), 99);
  EXPECT_FALSE(asked.selection().has_tail_lines());
  EXPECT_EQ(asked.selection().grep(), "WARN");
  read.set_epoch(assign.epoch() - 1);  // that log is another one
  asked = ask();
  EXPECT_EQ(asked.offset(), 0);
  EXPECT_FALSE(asked.selection().has_tail_lines());

  request.mutable_selection()->set_grep("(");
  EXPECT_REFUSED(Ask(request), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "selection.grep: ", "found \"(\"");
  request.mutable_selection()->clear_grep();
  request.mutable_selection()->set_tail_lines(-1);
  EXPECT_REFUSED(Ask(request), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "selection.tail_lines: ", "found -1");
  request.mutable_selection()->clear_tail_lines();
  google::protobuf::Message* selection = request.mutable_selection();
  selection->GetReflection()->MutableUnknownFields(selection)->AddVarint(4000, 1);
  EXPECT_REFUSED(Ask(request), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "selection: ", "found field 4000");
}

}  // namespace
}  // namespace stretto::service

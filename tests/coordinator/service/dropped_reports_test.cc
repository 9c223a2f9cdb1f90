// SPDX-License-Identifier: Apache-2.0

// Reports that count others, which the log of their rank has dropped.

#include <gmock/gmock.h>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

class DroppedReportsTest : public ServiceTest {};

TEST_F(DroppedReportsTest, WhatALogHasDroppedIsCountedWithTheNextReport) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  for (int rank : {0, 1}) worker.Prepared(assign, rank);
  worker.Step(assign, 0, 1);
  auto message = FakeWorker::Report(assign, 0, 42);
  v1alpha1::RankReport& report = *message.mutable_report();
  report.mutable_step()->set_step(41);
  report.mutable_step()->mutable_ledger()->set_wall_seconds(0.5);
  report.mutable_dropped()->set_reports(39);
  report.mutable_dropped()->mutable_ledger()->set_wall_seconds(19.5);
  report.mutable_dropped()->mutable_ledger()->set_steps(39);
  worker.Write(message);
  worker.AwaitAck(0, 42);
  const v1alpha1::Progress progress = MustGet("jobs/gpt").progress();
  EXPECT_EQ(progress.ledger().steps(), 41);
  EXPECT_DOUBLE_EQ(progress.ledger().wall_seconds(), 20.5);
  EXPECT_EQ(progress.steps(), 0);  // rank 1 has made none

  message = FakeWorker::Report(assign, 0, 45);
  message.mutable_report()->mutable_step()->set_step(44);
  message.mutable_report()->mutable_dropped()->set_reports(1);
  worker.Write(message);
  const grpc::Status status = worker.Ended();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("leaves a gap; expected report 43"));
}

TEST_F(DroppedReportsTest, NumbersThatNoReportHasEndTheSession) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  auto message = FakeWorker::Report(worker.Assigned(), 1, 3);
  message.mutable_report()->mutable_step()->set_step(1);
  message.mutable_report()->mutable_dropped()->set_reports(3);
  worker.Write(message);
  const grpc::Status status = worker.Ended();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              ::testing::HasSubstr("worker w0: rank 1: found report 3 after 3 dropped ones"));
}

}  // namespace
}  // namespace stretto::service

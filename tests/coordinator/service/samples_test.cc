// SPDX-License-Identifier: Apache-2.0

// Texts that a model wrote, from the report of a worker to a watcher.
#include <gtest/gtest.h>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

class SamplesTest : public ServiceTest {};

TEST_F(SamplesTest, AWatcherGetsTheJobAgainWhenThereAreNewTexts) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  for (int rank : {0, 1}) worker.Prepared(assign, rank);
  for (int rank : {0, 1}) worker.AwaitAck(rank, 1);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/gpt");
  const auto stream = jobs_->WatchJob(&context, request);
  v1alpha1::WatchJobResponse event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.job().samples_size(), 0);
  v1alpha1::WorkerMessage message = FakeWorker::Report(assign, 0, 2);
  v1alpha1::Samples* samples = message.mutable_report()->mutable_samples();
  samples->set_step(10);
  samples->add_samples()->set_text("b\nc");
  worker.Write(message);
  worker.AwaitAck(0, 2);
  ASSERT_TRUE(stream->Read(&event));
  ASSERT_EQ(event.job().samples_size(), 1);
  EXPECT_EQ(event.job().samples(0).step(), 10);
  EXPECT_EQ(event.job().samples(0).samples(0).text(), "b\\nc");  // prose is escaped
  EXPECT_EQ(MustGet("jobs/gpt").samples_size(), 1);
  context.TryCancel();
  (void)stream->Finish();
}

}  // namespace
}  // namespace stretto::service

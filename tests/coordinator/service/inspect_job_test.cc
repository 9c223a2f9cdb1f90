// SPDX-License-Identifier: Apache-2.0

// Dry runs of jobs, about which a scripted worker is asked.
#include <gtest/gtest.h>

#include <future>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using grpc::StatusCode;
using v1alpha1::Job;

class InspectJobTest : public ServiceTest {};

TEST_F(InspectJobTest, ADryRunAsksAWorkerWhatTheJobWouldFind) {
  FakeWorker other(*workers_, "a"), worker(*workers_, "w0", "second");
  other.hello().mutable_devices()->DeleteSubrange(1, 1);  // too small for the job
  other.Register();
  worker.Register();
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.set_validate_only(true);
  v1alpha1::Inspection found;
  found.add_facts("data: 1k tokens");
  found.add_facts("steps: 3");
  Job job;
  v1alpha1::Inspect asked;
  ASSERT_TRUE(DryRun(*jobs_, worker, request, &job, found, &asked).ok());
  EXPECT_EQ(asked.job_id(), "gpt");
  EXPECT_EQ(asked.spec().data().prefix(), "text/corpus");
  ASSERT_EQ(job.conditions_size(), 1);
  EXPECT_EQ(job.conditions(0).type(), "Inspected");
  EXPECT_EQ(job.conditions(0).status(), v1alpha1::Condition::TRUE);
  EXPECT_EQ(job.conditions(0).message(), "worker w0: data: 1k tokens; steps: 3");

  found.Clear();
  found.set_not_done("the worker looks at other jobs");
  ASSERT_TRUE(DryRun(*jobs_, worker, request, &job, found).ok());
  EXPECT_EQ(job.conditions(0).status(), v1alpha1::Condition::UNKNOWN);
  EXPECT_EQ(job.conditions(0).message(), "worker w0: the worker looks at other jobs");

  found.Clear();
  found.add_problems()->set_field("data");
  found.mutable_problems(0)->set_message("/data/text/corpus.bin: not found");
  EXPECT_REFUSED(DryRun(*jobs_, worker, request, &job, found), StatusCode::INVALID_ARGUMENT,
                 "INVALID_FIELD", "spec.data: worker w0: ", "/data/text/corpus.bin: not found");
}

TEST_F(InspectJobTest, AWorkerThatGoesAwayHasNotLooked) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.set_validate_only(true);
  Job job;
  auto call = std::async(std::launch::async, [&] { return Create(request, &job); });
  EXPECT_TRUE(worker.Next().has_inspect());
  worker.Drop();
  EXPECT_TRUE(call.get().ok());
  EXPECT_EQ(job.conditions(0).status(), v1alpha1::Condition::UNKNOWN);
  EXPECT_EQ(job.conditions(0).message(), "worker w0: it lost contact meanwhile");
}

TEST_F(InspectJobTest, EpochsAreTheStepsThatAWorkerCounts) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.set_request_id("r-1");
  v1alpha1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  spec.clear_steps();
  spec.set_epochs(2.5);
  v1alpha1::Inspection found;
  found.set_steps_of_epoch(7);
  Job job;
  ASSERT_TRUE(DryRun(*jobs_, worker, request, &job, found).ok());
  EXPECT_EQ(job.spec().steps(), 18);
  EXPECT_EQ(job.spec().epochs(), 2.5);
  EXPECT_EQ(job.spec().optimizer().decay_steps(), 18);
  Job again;
  ASSERT_TRUE(Create(request, &again).ok());  // nobody is asked
  EXPECT_EQ(again.uid(), job.uid());

  request.set_job_id("other");
  request.set_request_id("r-2");
  spec.set_steps(18);
  EXPECT_TRUE(DryRun(*jobs_, worker, request, &job, found).ok());
  request.set_job_id("third");
  request.set_request_id("r-3");
  spec.set_steps(17);
  EXPECT_REFUSED(DryRun(*jobs_, worker, request, &job, found), StatusCode::INVALID_ARGUMENT,
                 "INVALID_FIELD", "spec.steps: found 17, expected 18, 2.5 epochs of 7 steps each");
}

TEST_F(InspectJobTest, EpochsThatNobodyCountsAreRefused) {
  v1alpha1::CreateJobRequest request = Request("gpt");
  v1alpha1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  spec.clear_steps();
  spec.set_epochs(2);
  Job job;
  EXPECT_REFUSED(Create(request, &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "spec.epochs: found 2, expected a worker that is connected");
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  v1alpha1::Inspection found;
  found.set_not_done("the worker looks at other jobs");
  EXPECT_REFUSED(DryRun(*jobs_, worker, request, &job, found), StatusCode::INVALID_ARGUMENT,
                 "INVALID_FIELD", "spec.epochs: found 2", "worker w0: the worker looks at other");
  // Counted before, as in a job that is printed and submitted again.
  spec.set_steps(18);
  EXPECT_TRUE(DryRun(*jobs_, worker, request, &job, found).ok());
  EXPECT_EQ(job.spec().steps(), 18);
}

// The job that writes the checkpoint is queued or trains.
TEST_F(InspectJobTest, ACheckpointThatMayStillComeIsNotLookedFor) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("first");
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.set_validate_only(true);
  Job job;
  for (const bool waits : {true, false}) {
    request.mutable_job()->mutable_spec()->mutable_checkpoint()->set_resume_from(waits ? "first"
                                                                                       : "another");
    v1alpha1::Inspect asked;
    ASSERT_TRUE(DryRun(*jobs_, worker, request, &job, {}, &asked).ok());
    EXPECT_EQ(asked.spec().checkpoint().resume_from().empty(), waits);
    EXPECT_FALSE(job.spec().checkpoint().resume_from().empty());
  }
}

}  // namespace
}  // namespace stretto::service

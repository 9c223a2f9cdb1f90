// SPDX-License-Identifier: Apache-2.0

// Restarts, suspending and cordons as users and workers see them.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using v1alpha1::Job;

class RestartServiceTest : public ServiceTest {
 protected:
  Job MustCreateRestarting(const std::string& id) {
    v1alpha1::CreateJobRequest request = Request(id);
    request.mutable_job()->mutable_spec()->mutable_restart()->set_backoff(0);
    Job job;
    const grpc::Status status = Create(request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job;
  }
  template <class Stub, class Request, class Response>
  static grpc::Status Call(Stub& stub,
                           grpc::Status (Stub::*call)(grpc::ClientContext*, const Request&,
                                                      Response*),
                           const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return (stub.*call)(&context, request, response);
  }
  grpc::Status Suspend(const std::string& name, Job* job) {
    v1alpha1::SuspendJobRequest request;
    request.set_name(name);
    return Call(*jobs_, &v1alpha1::JobService::Stub::SuspendJob, request, job);
  }
  grpc::Status Checkpoint(const std::string& name, Job* job) {
    v1alpha1::CheckpointJobRequest request;
    request.set_name(name);
    return Call(*jobs_, &v1alpha1::JobService::Stub::CheckpointJob, request, job);
  }
  grpc::Status Resume(const std::string& name, Job* job, int64_t steps = 0) {
    v1alpha1::ResumeJobRequest request;
    if (steps != 0) request.set_steps(steps);
    request.set_name(name);
    return Call(*jobs_, &v1alpha1::JobService::Stub::ResumeJob, request, job);
  }
  grpc::Status Cordon(const std::string& name, const std::string& reason,
                      v1alpha1::Worker* worker) {
    v1alpha1::CordonWorkerRequest request;
    request.set_name(name);
    request.set_reason(reason);
    return Call(*cluster_, &v1alpha1::ClusterService::Stub::CordonWorker, request, worker);
  }

  // Both ranks prepare, do two steps and save; then rank 1 is killed and rank 0 ends with it.
  static void RunAndFail(FakeWorker& worker, const v1alpha1::Assign& assign) {
    for (int rank : {0, 1}) worker.Prepared(assign, rank);
    for (int64_t step : {1, 2}) {
      for (int rank : {0, 1}) worker.Step(assign, rank, step);
    }
    v1alpha1::WorkerMessage saved = FakeWorker::Report(assign, 0, 4);
    saved.mutable_report()->mutable_checkpoint()->set_step(2);
    saved.mutable_report()->mutable_checkpoint()->set_name("step-00000002");
    saved.mutable_report()->mutable_checkpoint()->set_ok(true);
    worker.Write(saved);
    worker.Exit(assign, 1, 4, 9);
    worker.Exit(assign, 0, 5, 9);
  }
};

TEST_F(RestartServiceTest, StepsOfAnEarlierAttemptSurviveTheCoordinator) {
  {
    FakeWorker worker(*workers_, "w0");
    worker.Register();
    MustCreateRestarting("gpt");
    const v1alpha1::Assign first = worker.Assigned();
    EXPECT_EQ(first.attempt(), 1);
    RunAndFail(worker, first);
    EXPECT_TRUE(worker.Next().has_stop());
    EXPECT_EQ(worker.Assigned().attempt(), 2);
  }
  Restart();
  FakeWorker worker(*workers_, "w0", "second");
  worker.Register();
  const v1alpha1::Assign second = worker.Assigned();
  EXPECT_EQ(second.attempt(), 2);
  EXPECT_EQ(second.saved_step(), 2);
  const Job job = MustGet("jobs/gpt");
  EXPECT_EQ(job.progress().steps(), 2);
  EXPECT_DOUBLE_EQ(job.progress().last_loss(), 8);
  EXPECT_EQ(job.restarts(), 1);
  ASSERT_EQ(job.attempts_size(), 2);
  EXPECT_EQ(job.attempts(0).cause(), v1alpha1::RestartSpec::CRASH);
  EXPECT_EQ(job.attempts(0).first_failure().signal(), 9);
  EXPECT_FALSE(job.attempts(1).has_end_time());
  for (int rank : {0, 1}) worker.Prepared(second, rank);
  for (int rank : {0, 1}) {
    v1alpha1::WorkerMessage step = FakeWorker::Report(second, rank, 2);
    step.mutable_report()->mutable_step()->set_step(3);
    step.mutable_report()->mutable_step()->set_rank(rank);
    worker.Write(step);
    worker.Exit(second, rank, 3);
  }
  std::vector<v1alpha1::WatchJobResponse> events;
  EXPECT_TRUE(WatchToTheEnd("jobs/gpt", 0, &events).ok());
  std::vector<std::string> steps;
  for (const auto& event : events) {
    if (!event.has_step()) continue;
    steps.push_back(absl::StrCat(event.step().step(), " of attempt ", event.step().attempt()));
  }
  EXPECT_THAT(steps, ElementsAre("1 of attempt 1", "2 of attempt 1", "3 of attempt 2"));
  EXPECT_EQ(MustGet("jobs/gpt").state(), Job::SUCCEEDED);
}

TEST_F(RestartServiceTest, RestartsAreCountedByCause) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreateRestarting("gpt");
  RunAndFail(worker, worker.Assigned());
  EXPECT_TRUE(worker.Next().has_stop());
  const v1alpha1::Assign second = worker.Assigned();
  for (int rank : {0, 1}) worker.Prepared(second, rank);
  for (int rank : {0, 1}) worker.AwaitAck(rank, 1);
  const std::string metrics = telemetry_->Text();
  EXPECT_THAT(metrics, HasSubstr("stretto_job_restarts_total{cause=\"Crash\"} 1"));
}

TEST_F(RestartServiceTest, SuspendAndResumeAreRefusedWhereTheyMakeNoSense) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  Job job;
  EXPECT_REFUSED(Resume("jobs/gpt", &job), FAILED_PRECONDITION, "JOB_NOT_RESUMABLE", "gpt",
                 "PREPARING");
  EXPECT_TRUE(Suspend("jobs/gpt", &job).ok());
  EXPECT_EQ(job.state(), Job::SUSPENDING);
  const v1alpha1::Stop stop = worker.Next().stop();
  EXPECT_TRUE(stop.checkpoint());
  for (int rank : {0, 1}) worker.Exit(assign, rank, 1, 15);
  for (int rank : {0, 1}) worker.AwaitAck(rank, 1);
  EXPECT_EQ(MustGet("jobs/gpt").state(), Job::SUSPENDED);
  EXPECT_TRUE(Resume("jobs/gpt", &job).ok());
  EXPECT_EQ(job.state(), Job::PREPARING);
  EXPECT_EQ(job.attempt(), 2);
  worker.RunToTheEnd(worker.Assigned());
  EXPECT_REFUSED(Suspend("jobs/gpt", &job), FAILED_PRECONDITION, "JOB_ALREADY_ENDED", "gpt",
                 "SUCCEEDED");
  EXPECT_REFUSED(Suspend("jobs/no", &job), NOT_FOUND, "JOB_NOT_FOUND", "no");
}

TEST_F(RestartServiceTest, AJobThatHasSucceededTrainsOnWithMoreSteps) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.RunToTheEnd(worker.Assigned());
  Job job = MustGet("jobs/gpt");
  ASSERT_EQ(job.state(), Job::SUCCEEDED);
  EXPECT_EQ(job.spec().optimizer().decay_steps(), 3);
  EXPECT_REFUSED(Resume("jobs/gpt", &job), FAILED_PRECONDITION, "JOB_NOT_RESUMABLE", "gpt",
                 "SUCCEEDED", "more steps");
  for (const int64_t steps : {3, 2, -1}) {
    EXPECT_REFUSED(Resume("jobs/gpt", &job, steps), INVALID_ARGUMENT, "INVALID_FIELD",
                   "steps: ", absl::StrCat("found ", steps), "more than 3");
  }
  EXPECT_REFUSED(Resume("jobs/gpt", &job, INT64_MAX), INVALID_ARGUMENT, "INVALID_FIELD",
                 "steps: ", "found 9223372036854775807");
  EXPECT_EQ(MustGet("jobs/gpt").spec().steps(), 3);

  ASSERT_TRUE(Resume("jobs/gpt", &job, 5).ok());
  EXPECT_EQ(job.state(), Job::PREPARING);
  EXPECT_EQ(job.spec().steps(), 5);
  EXPECT_EQ(job.spec().optimizer().decay_steps(), 3);  // the schedule is kept
  EXPECT_FALSE(job.has_end_time());
  Restart();  // the steps are stored
  EXPECT_EQ(MustGet("jobs/gpt").spec().steps(), 5);
  EXPECT_EQ(MustGet("jobs/gpt").progress().total_steps(), 5);
}

TEST_F(RestartServiceTest, AJobWithoutCheckpointsHasNothingToTrainOnFrom) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.mutable_job()->mutable_spec()->mutable_checkpoint()->set_disabled(true);
  Job job;
  ASSERT_TRUE(Create(request, &job).ok());
  worker.RunToTheEnd(worker.Assigned());
  EXPECT_REFUSED(Resume("jobs/gpt", &job, 5), FAILED_PRECONDITION, "JOB_NOT_RESUMABLE", "gpt",
                 "SUCCEEDED");
  EXPECT_EQ(MustGet("jobs/gpt").spec().steps(), 3);
}

TEST_F(RestartServiceTest, CheckpointOnRequestIsSentToTheWorkerAndAnsweredByItsReport) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  Job job;
  EXPECT_REFUSED(Checkpoint("jobs/gpt", &job), FAILED_PRECONDITION, "JOB_NOT_RUNNING", "gpt",
                 "PREPARING");
  for (int rank : {0, 1}) worker.Prepared(assign, rank);
  for (int rank : {0, 1}) worker.AwaitAck(rank, 1);
  EXPECT_TRUE(Checkpoint("jobs/gpt", &job).ok());
  EXPECT_EQ(job.conditions().rbegin()->type(), "CheckpointRequested");
  EXPECT_EQ(job.conditions().rbegin()->status(), v1alpha1::Condition::TRUE);
  const v1alpha1::SaveCheckpoint save = worker.Next().save();
  EXPECT_EQ(save.job_uid(), assign.job_uid());
  EXPECT_EQ(save.epoch(), assign.epoch());
  EXPECT_EQ(save.request(), 1);
  v1alpha1::WorkerMessage saved = FakeWorker::Report(assign, 0, 2);
  saved.mutable_report()->mutable_checkpoint()->set_step(3);
  saved.mutable_report()->mutable_checkpoint()->set_name("step-00000003");
  saved.mutable_report()->mutable_checkpoint()->set_ok(true);
  saved.mutable_report()->mutable_checkpoint()->set_request(save.request());
  worker.Write(saved);
  worker.AwaitAck(0, 2);
  job = MustGet("jobs/gpt");
  EXPECT_EQ(job.state(), Job::RUNNING);
  for (const v1alpha1::Condition& condition : job.conditions()) {
    if (condition.type() != "CheckpointRequested") continue;
    EXPECT_EQ(condition.status(), v1alpha1::Condition::FALSE);
    EXPECT_EQ(condition.message(), "step-00000003");
  }
  EXPECT_REFUSED(Checkpoint("jobs/no", &job), NOT_FOUND, "JOB_NOT_FOUND", "no");
}

TEST_F(RestartServiceTest, CheckpointOfAJobThatSavesNoneIsRefused) {
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.mutable_job()->mutable_spec()->mutable_checkpoint()->set_disabled(true);
  Job job;
  ASSERT_TRUE(Create(request, &job).ok());
  EXPECT_REFUSED(Checkpoint("jobs/gpt", &job), FAILED_PRECONDITION, "CHECKPOINTS_DISABLED",
                 "checkpoint.disabled");
}

TEST_F(RestartServiceTest, CordonedWorkerShowsWhyAndTakesNothing) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  v1alpha1::Worker shown;
  EXPECT_TRUE(Cordon("workers/w0", "", &shown).ok());
  EXPECT_EQ(shown.cordon(), "by request");
  EXPECT_EQ(shown.free_slots(), 0);
  EXPECT_EQ(MustCreate("gpt").state(), Job::PENDING);
  EXPECT_REFUSED(Cordon("workers/w0", std::string(201, 'x'), &shown), INVALID_ARGUMENT,
                 "INVALID_FIELD", "reason", "201", "200");
  EXPECT_REFUSED(Cordon("workers/w1", "", &shown), NOT_FOUND, "WORKER_NOT_FOUND", "w1");
  v1alpha1::UncordonWorkerRequest request;
  request.set_name("workers/w0");
  EXPECT_TRUE(
      Call(*cluster_, &v1alpha1::ClusterService::Stub::UncordonWorker, request, &shown).ok());
  EXPECT_EQ(shown.cordon(), "");
  EXPECT_EQ(MustGet("jobs/gpt").state(), Job::PREPARING);
}

}  // namespace
}  // namespace stretto::service

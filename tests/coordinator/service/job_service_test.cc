// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "coordinator/service/errors.h"
#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using v1alpha1::Job;

class JobServiceTest : public ServiceTest {
 protected:
  v1alpha1::ListJobsResponse List(int page_size, const std::string& token, grpc::Status* status) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ListJobsRequest request;
    request.set_page_size(page_size);
    request.set_page_token(token);
    v1alpha1::ListJobsResponse response;
    *status = jobs_->ListJobs(&context, request, &response);
    return response;
  }
  static std::vector<int64_t> StepsOf(const std::vector<v1alpha1::WatchJobResponse>& events) {
    std::vector<int64_t> steps;
    for (const auto& event : events) {
      if (event.has_step()) steps.push_back(event.step().step());
    }
    return steps;
  }
};

TEST_F(JobServiceTest, JobRunsFromCreateToSucceededUnderWatch) {
  FakeWorker worker(*workers_, "w0");
  ASSERT_TRUE(worker.Register().has_registered());
  const Job created = MustCreate("gpt");
  EXPECT_EQ(created.name(), "jobs/gpt");
  EXPECT_EQ(created.state(), Job::PREPARING);
  EXPECT_EQ(created.spec().model().hidden(), 64);  // defaults are filled in
  ASSERT_EQ(created.placement_size(), 2);
  EXPECT_EQ(created.placement(1).worker(), "workers/w0");

  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/gpt");
  auto watch = jobs_->WatchJob(&context, request);
  v1alpha1::WatchJobResponse event;
  ASSERT_TRUE(watch->Read(&event));
  EXPECT_EQ(event.job().state(), Job::PREPARING);

  const v1alpha1::Assign assign = worker.Assigned();
  EXPECT_EQ(assign.job_id(), "gpt");
  EXPECT_EQ(assign.job_uid(), created.uid());
  EXPECT_EQ(assign.world_size(), 2);
  EXPECT_EQ(assign.spec().schedule().name(), "megatron_sync");
  worker.RunToTheEnd(assign);

  std::vector<v1alpha1::WatchJobResponse> events;
  while (watch->Read(&event)) events.push_back(event);
  EXPECT_TRUE(watch->Finish().ok());
  EXPECT_THAT(StepsOf(events), ElementsAre(1, 2, 3));
  ASSERT_TRUE(events.back().has_job());
  const Job& job = events.back().job();
  EXPECT_EQ(job.state(), Job::SUCCEEDED);
  EXPECT_EQ(job.progress().steps(), 3);
  EXPECT_EQ(job.progress().total_steps(), 3);
  EXPECT_EQ(job.progress().tokens(), 3 * 128);
  EXPECT_DOUBLE_EQ(job.progress().first_loss(), 9);
  EXPECT_DOUBLE_EQ(job.progress().last_loss(), 7);
  EXPECT_DOUBLE_EQ(job.progress().tokens_per_second(), 256);
  ASSERT_EQ(job.progress().rank_ledgers_size(), 2);
  EXPECT_DOUBLE_EQ(job.progress().ledger().wall_seconds(), 1.5);
  EXPECT_DOUBLE_EQ(job.progress().ledger().entries(0).seconds(), 1.5);
  EXPECT_EQ(job.progress().ledger().steps(), 3);
  EXPECT_TRUE(job.has_submit_to_first_step());
}

TEST_F(JobServiceTest, WatchStartsAfterTheGivenStep) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.RunToTheEnd(worker.Assigned());
  std::vector<v1alpha1::WatchJobResponse> events;
  EXPECT_TRUE(WatchToTheEnd("jobs/gpt", 1, &events).ok());
  EXPECT_TRUE(events.at(0).has_job());
  EXPECT_THAT(StepsOf(events), ElementsAre(2, 3));
  events.clear();
  EXPECT_TRUE(WatchToTheEnd("jobs/gpt", 3, &events).ok());
  EXPECT_EQ(events.size(), 1u);
}

TEST_F(JobServiceTest, BadSpecIsRefusedWithFieldAndReason) {
  v1alpha1::CreateJobRequest request = Request("gpt", 3);
  Job job;
  const grpc::Status status = Create(request, &job);
  EXPECT_REFUSED(status, StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "spec.parallelism.tp_size: ", "found 3", "heads 4");
  const google::rpc::Status details = DetailsOf(status);
  EXPECT_EQ(details.code(), 3);
  ASSERT_EQ(details.details_size(), 2);
  google::rpc::BadRequest bad;
  ASSERT_TRUE(details.details(1).UnpackTo(&bad));
  EXPECT_EQ(bad.field_violations(0).field(), "spec.parallelism.tp_size");
  EXPECT_REFUSED(Create(Request("No!"), &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "job_id: ", "found \"No!\"", "1 to 63");
}

TEST_F(JobServiceTest, JobLargerThanTheClusterIsRefused) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  Job job;
  EXPECT_REFUSED(Create(Request("gpt", 4), &job), StatusCode::FAILED_PRECONDITION,
                 "NOT_ENOUGH_SLOTS", "\"gpt\"", "4 slots", "has 2 on 1");
}

TEST_F(JobServiceTest, RequestIdMakesCreateIdempotent) {
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.set_request_id("r-1");
  Job first, second;
  ASSERT_TRUE(Create(request, &first).ok());
  ASSERT_TRUE(Create(request, &second).ok());
  EXPECT_EQ(first.uid(), second.uid());
  request.mutable_job()->mutable_spec()->set_steps(4);
  EXPECT_REFUSED(Create(request, &second), StatusCode::ALREADY_EXISTS, "REQUEST_ID_REUSED",
                 "\"r-1\"", "\"gpt\"");
  EXPECT_REFUSED(Create(Request("gpt"), &second), StatusCode::ALREADY_EXISTS, "JOB_ALREADY_EXISTS",
                 "\"gpt\"", "PENDING");
}

TEST_F(JobServiceTest, ValidateOnlyStoresNothing) {
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.set_validate_only(true);
  Job job;
  ASSERT_TRUE(Create(request, &job).ok());
  EXPECT_EQ(job.name(), "jobs/gpt");
  EXPECT_EQ(job.uid(), "");
  EXPECT_EQ(job.spec().global_batch_size(), 2);
  EXPECT_REFUSED(Get("jobs/gpt", &job), StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "\"gpt\"");
}

TEST_F(JobServiceTest, ValidateOnlyTellsWhereTheJobWouldGo) {
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.set_validate_only(true);
  Job waiting;
  ASSERT_TRUE(Create(request, &waiting).ok());
  EXPECT_EQ(waiting.placement_size(), 0);
  ASSERT_EQ(waiting.conditions_size(), 2);
  EXPECT_EQ(waiting.conditions(0).type(), "Scheduled");
  EXPECT_EQ(waiting.conditions(0).status(), v1alpha1::Condition::FALSE);
  EXPECT_EQ(waiting.conditions(0).reason(), "NoWorkers");
  EXPECT_EQ(waiting.conditions(1).type(), "Inspected");
  EXPECT_EQ(waiting.conditions(1).status(), v1alpha1::Condition::UNKNOWN);
  EXPECT_EQ(waiting.conditions(1).reason(), "NoWorker");

  FakeWorker worker(*workers_, "w0");
  worker.Register();
  Job placed;
  ASSERT_TRUE(DryRun(*jobs_, worker, request, &placed).ok());
  ASSERT_EQ(placed.placement_size(), 2);
  EXPECT_EQ(placed.placement(1).rank(), 1);
  EXPECT_EQ(placed.placement(1).worker(), "workers/w0");
  EXPECT_EQ(placed.placement(1).slot(), 1);
  EXPECT_REFUSED(Get("jobs/gpt", &placed), StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "\"gpt\"");
}

TEST_F(JobServiceTest, PendingJobSaysWhy) {
  const Job job = MustCreate("gpt");
  EXPECT_EQ(job.state(), Job::PENDING);
  ASSERT_GE(job.conditions_size(), 1);
  EXPECT_EQ(job.conditions(0).type(), "Scheduled");
  EXPECT_EQ(job.conditions(0).status(), v1alpha1::Condition::FALSE);
  EXPECT_EQ(job.conditions(0).reason(), "NoWorkers");
}

TEST_F(JobServiceTest, ListPagesNewestFirst) {
  for (const char* id : {"a", "b", "c"}) MustCreate(id);
  grpc::Status status;
  const v1alpha1::ListJobsResponse first = List(2, "", &status);
  ASSERT_TRUE(status.ok());
  ASSERT_EQ(first.jobs_size(), 2);
  EXPECT_EQ(first.jobs(0).name(), "jobs/c");
  EXPECT_EQ(first.jobs(1).name(), "jobs/b");
  const v1alpha1::ListJobsResponse second = List(2, first.next_page_token(), &status);
  ASSERT_EQ(second.jobs_size(), 1);
  EXPECT_EQ(second.jobs(0).name(), "jobs/a");
  EXPECT_EQ(second.next_page_token(), "");
  List(-1, "", &status);
  EXPECT_REFUSED(status, StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "page_size: ", "found -1");
  List(2, "nonsense", &status);
  EXPECT_REFUSED(status, StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "page_token: ", "found \"nonsense\"");
}

TEST_F(JobServiceTest, CancelStopsTheGangAndRefusesAnEndedJob) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  Job job;
  ASSERT_TRUE(Cancel("jobs/gpt", &job).ok());
  EXPECT_EQ(job.state(), Job::CANCELLING);
  const v1alpha1::CoordinatorMessage stop = worker.Next();
  EXPECT_EQ(stop.stop().job_uid(), assign.job_uid());
  for (int rank : {0, 1}) worker.Exit(assign, rank, 1, 15);
  for (int rank : {0, 1}) worker.AwaitAck(rank, 1);
  EXPECT_EQ(MustGet("jobs/gpt").state(), Job::CANCELLED);
  EXPECT_REFUSED(Cancel("jobs/gpt", &job), StatusCode::FAILED_PRECONDITION, "JOB_ALREADY_ENDED",
                 "\"gpt\"", "CANCELLED");
}

TEST_F(JobServiceTest, DeletedJobIsGoneForGoodAndItsNameIsFree) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  const Job first = MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  Job job;
  EXPECT_REFUSED(Delete("jobs/gpt", &job), StatusCode::FAILED_PRECONDITION, "JOB_NOT_ENDED",
                 "\"gpt\"", "PREPARING");
  worker.RunToTheEnd(assign);
  ASSERT_TRUE(Delete("jobs/gpt", &job).ok());
  EXPECT_EQ(job.state(), Job::SUCCEEDED);
  EXPECT_EQ(job.progress().steps(), 3);
  EXPECT_REFUSED(Get("jobs/gpt", &job), StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "\"gpt\"");
  EXPECT_REFUSED(Delete("jobs/gpt", &job), StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "\"gpt\"");
  std::vector<v1alpha1::WatchJobResponse> events;
  EXPECT_EQ(WatchToTheEnd("jobs/gpt", 0, &events).error_code(), grpc::StatusCode::NOT_FOUND);
  Restart();
  EXPECT_EQ(Get("jobs/gpt", &job).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_NE(MustCreate("gpt").uid(), first.uid());
}

TEST_F(JobServiceTest, WatcherSeesThePlaceInTheQueueChange) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  for (const char* id : {"a", "b", "c"}) MustCreate(id);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/c");
  auto reader = jobs_->WatchJob(&context, request);
  v1alpha1::WatchJobResponse event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_THAT(event.job().conditions(0).message(), HasSubstr("waits behind job b, which"));
  EXPECT_THAT(event.job().conditions(0).message(), HasSubstr("; place 2 in the queue"));
  Job job;
  ASSERT_TRUE(Cancel("jobs/b", &job).ok());
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(event.job().conditions(0).reason(), "NotEnoughSlots");
  EXPECT_THAT(event.job().conditions(0).message(), HasSubstr("needs 2 slots; 0 free of 2"));
  context.TryCancel();
}

TEST_F(JobServiceTest, KilledRankIsTheJobsFirstFailure) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  for (int rank : {0, 1}) worker.Prepared(assign, rank);
  worker.Step(assign, 1, 1);
  worker.Exit(assign, 1, 3, 9);
  EXPECT_TRUE(worker.Next().has_stop());
  worker.Exit(assign, 0, 2, 15);
  worker.AwaitAck(0, 2);
  const Job job = MustGet("jobs/gpt");
  EXPECT_EQ(job.state(), Job::FAILED);
  EXPECT_EQ(job.first_failure().rank(), 1);
  EXPECT_EQ(job.first_failure().signal(), 9);
  EXPECT_EQ(job.first_failure().worker(), "workers/w0");
}

// Before it waits for slots, and before its trainers read the checkpoint.
TEST_F(JobServiceTest, AResumeUnderOtherSettingsIsRefusedByTheirNames) {
  FakeWorker worker(*workers_, "w0");
  ASSERT_TRUE(worker.Register().has_registered());
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  v1alpha1::CreateJobRequest request = Request("more");
  v1alpha1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  spec.mutable_checkpoint()->set_resume_from("gpt");
  spec.mutable_optimizer()->set_learning_rate(0.5);
  request.set_validate_only(true);
  Job job;
  EXPECT_TRUE(DryRun(*jobs_, worker, request, &job)
                  .ok());  // nothing was saved that it could be compared with
  for (int rank : {0, 1}) worker.Prepared(assign, rank);
  v1alpha1::WorkerMessage saved = FakeWorker::Report(assign, 0, 2);
  saved.mutable_report()->mutable_checkpoint()->set_step(2);
  saved.mutable_report()->mutable_checkpoint()->set_name("step-00000002");
  saved.mutable_report()->mutable_checkpoint()->set_ok(true);
  worker.Write(saved);
  worker.AwaitAck(0, 2);
  EXPECT_REFUSED(Create(request, &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "spec.optimizer.learning_rate: ", "found 0.5", "expected 0.001 as in job gpt");
  // Whatever was not given is that of the checkpoint: the decay, but not this rate.
  for (const char* from : {"gpt/best", "gpt/step-00000002"}) {
    spec.mutable_checkpoint()->set_resume_from(from);
    EXPECT_FALSE(Create(request, &job).ok()) << from;
  }
  for (const char* from : {"gpt/step-00000001", "nobody", "hf:gpt"}) {
    spec.mutable_checkpoint()->set_resume_from(from);
    EXPECT_TRUE(DryRun(*jobs_, worker, request, &job).ok()) << from;
  }
  spec.mutable_checkpoint()->set_resume_from("gpt");
  spec.clear_optimizer();
  spec.set_steps(30);
  EXPECT_TRUE(DryRun(*jobs_, worker, request, &job).ok());
  spec.mutable_optimizer()->set_decay_steps(30);
  EXPECT_REFUSED(Create(request, &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "spec.optimizer.decay_steps: ", "found 30", "expected 3 as in job gpt");
}

// A spec that left the decay open took that of a checkpoint.
TEST_F(JobServiceTest, AJobSaysThatItKeepsTheLearningRateOfItsCheckpoint) {
  FakeWorker worker(*workers_, "w0");
  ASSERT_TRUE(worker.Register().has_registered());
  MustCreate("gpt");
  const v1alpha1::Assign assign = worker.Assigned();
  for (int rank : {0, 1}) {
    v1alpha1::WorkerMessage message = FakeWorker::Report(assign, rank, 1);
    message.mutable_report()->mutable_prepared()->set_decay_steps(20);
    worker.Write(message);
    worker.AwaitAck(rank, 1);
  }
  const Job job = MustGet("jobs/gpt");
  const auto kept =
      std::find_if(job.conditions().begin(), job.conditions().end(),
                   [](const auto& condition) { return condition.type() == "LearningRateKept"; });
  ASSERT_NE(kept, job.conditions().end());
  EXPECT_EQ(kept->status(), v1alpha1::Condition::TRUE);
  EXPECT_THAT(kept->message(), HasSubstr("falls until step 20"));
}

TEST_F(JobServiceTest, UnknownNamesAreRefusedByEveryMethod) {
  Job job;
  EXPECT_REFUSED(Cancel("jobs/x", &job), StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "\"x\"");
  EXPECT_REFUSED(Get("x", &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "name: ", "found \"x\"", "\"jobs/ID\"", "1 to 63");
  std::vector<v1alpha1::WatchJobResponse> events;
  EXPECT_REFUSED(WatchToTheEnd("jobs/x", 0, &events), StatusCode::NOT_FOUND, "JOB_NOT_FOUND",
                 "\"x\"");
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::GetWorkerRequest request;
  request.set_name("workers/x");
  v1alpha1::Worker worker;
  EXPECT_REFUSED(cluster_->GetWorker(&context, request, &worker), StatusCode::NOT_FOUND,
                 "WORKER_NOT_FOUND", "\"x\"");
}

TEST_F(JobServiceTest, CoordinatorRestartReplaysWithoutGapsOrRepeats) {
  v1alpha1::Assign assign;
  {
    FakeWorker worker(*workers_, "w0");
    worker.Register();
    MustCreate("gpt");
    assign = worker.Assigned();
    for (int rank : {0, 1}) worker.Prepared(assign, rank);
    for (int64_t step : {1, 2}) {
      for (int rank : {0, 1}) worker.Step(assign, rank, step);
    }
    for (int rank : {0, 1}) worker.AwaitAck(rank, 3);
    Restart();
  }
  FakeWorker worker(*workers_, "w0");
  for (int rank : {0, 1}) worker.Hold(assign, rank, 3);
  const v1alpha1::CoordinatorMessage reply = worker.Register();
  ASSERT_EQ(reply.registered().held_size(), 2);
  EXPECT_TRUE(reply.registered().held(0).keep());
  EXPECT_EQ(reply.registered().held(0).acked_sequence(), 0);
  worker.RunToTheEnd(assign);
  std::vector<v1alpha1::WatchJobResponse> events;
  EXPECT_TRUE(WatchToTheEnd("jobs/gpt", 0, &events).ok());
  EXPECT_THAT(StepsOf(events), ElementsAre(1, 2, 3));
  const Job job = MustGet("jobs/gpt");
  EXPECT_EQ(job.state(), Job::SUCCEEDED);
  EXPECT_DOUBLE_EQ(job.progress().ledger().wall_seconds(), 1.5);
}

TEST_F(JobServiceTest, EndedJobKeepsItsProgressOverARestart) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  worker.RunToTheEnd(worker.Assigned());
  const Job before = MustGet("jobs/gpt");
  Restart();
  const Job after = MustGet("jobs/gpt");
  EXPECT_EQ(after.progress().SerializeAsString(), before.progress().SerializeAsString());
  EXPECT_DOUBLE_EQ(after.progress().last_loss(), 7);
  std::vector<v1alpha1::WatchJobResponse> events;
  EXPECT_TRUE(WatchToTheEnd("jobs/gpt", 0, &events).ok());
  EXPECT_THAT(StepsOf(events), ElementsAre(1, 2, 3));
}

TEST_F(JobServiceTest, MetricsCountJobsWorkersAndCalls) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  MustCreate("gpt");
  MustCreate("later");
  Job job;
  Get("jobs/none", &job);
  // A call is counted when gRPC lets go of it, which may be after its client knows the answer; the
  // same connection's next call is not a barrier, a server that has shut down is.
  const std::string gauges = telemetry_->Text();
  EXPECT_THAT(gauges, HasSubstr("stretto_jobs{state=\"PREPARING\"} 1"));
  EXPECT_THAT(gauges, HasSubstr("stretto_jobs{state=\"PENDING\"} 1"));
  EXPECT_THAT(gauges, HasSubstr("stretto_jobs{state=\"FAILED\"} 0"));
  EXPECT_THAT(gauges, HasSubstr("stretto_workers{state=\"READY\"} 1"));
  EXPECT_THAT(gauges, HasSubstr("stretto_job_queue_wait_seconds_count 1"));
  EXPECT_THAT(gauges, HasSubstr(absl::StrCat("stretto_build_info{protocol=\"", kProtocolVersion,
                                             "\",version=\"" STRETTO_VERSION)));
  server_->Shutdown();
  const std::string calls = telemetry_->Text();
  EXPECT_THAT(calls, HasSubstr("stretto_rpcs_total{code=\"OK\",method="
                               "\"stretto.v1alpha1.JobService/CreateJob\"} 2"));
  EXPECT_THAT(calls, HasSubstr("stretto_rpcs_total{code=\"NOT_FOUND\",method="
                               "\"stretto.v1alpha1.JobService/GetJob\"} 1"));
  EXPECT_THAT(calls, HasSubstr("stretto_rpc_duration_seconds_count{method="
                               "\"stretto.v1alpha1.JobService/CreateJob\"} 2"));
}

TEST_F(JobServiceTest, ShutdownEndsWatchesWithUnavailable) {
  MustCreate("gpt");
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/gpt");
  auto watch = jobs_->WatchJob(&context, request);
  v1alpha1::WatchJobResponse event;
  ASSERT_TRUE(watch->Read(&event));
  server_->Shutdown();
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_REFUSED(watch->Finish(), StatusCode::UNAVAILABLE, "SHUTTING_DOWN",
                 "the coordinator is shutting down");
}

TEST_F(JobServiceTest, PortInUseIsNamed) {
  ServerOptions options;
  options.listen = absl::StrCat("127.0.0.1:", server_->port());
  telemetry::Telemetry telemetry;
  const auto second = Server::Start(options, coordinator::NewMemoryStore(), clock_, telemetry);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  golden_.Hide(options.listen, "ADDRESS");
  golden_.Add(std::string(second.status().message()), {"--listen: ", options.listen});
}

TEST(ListenAddress, BeyondLoopbackNeedsTlsOrTheFlag) {
  ServerOptions options;
  for (const char* good : {"127.0.0.1:0", "localhost:7070", "[::1]:1", "127.1.2.3:65535"}) {
    options.listen = good;
    EXPECT_TRUE(CheckListenAddress(options).ok()) << good;
  }
  options.listen = "0.0.0.0:7070";
  const absl::Status status = CheckListenAddress(options);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  GoldenMessages golden("stretto-coordinator");
  golden.Add(std::string(status.message()),
             {"--listen: found \"0.0.0.0:7070\"", "127.0.0.1", "--tls-ca", "--tls-certificate",
              "--tls-key", "--insecure-listen-beyond-loopback"});
  options.tls = {"ca", "certificate", "key"};
  EXPECT_TRUE(CheckListenAddress(options).ok());
  options.tls = {};
  options.insecure_listen_beyond_loopback = true;
  EXPECT_TRUE(CheckListenAddress(options).ok());
  options.listen = "7070";
  golden.Add(std::string(CheckListenAddress(options).message()),
             {"--listen: found \"7070\"", "HOST:PORT"});
}

}  // namespace
}  // namespace stretto::service

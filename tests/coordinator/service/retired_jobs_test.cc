// SPDX-License-Identifier: Apache-2.0

// Jobs that ended long ago, as users see them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using grpc::StatusCode;
using v1alpha1::Job;

class RetiredJobsTest : public ServiceTest {
 protected:
  // Cancelled ones, a second apart.
  void EndJobs(const std::vector<std::string>& ids) {
    for (const std::string& id : ids) {
      MustCreate(id);
      Job job;
      ASSERT_TRUE(Cancel("jobs/" + id, &job).ok());
      clock_.Advance(absl::Seconds(1));
    }
  }
  // After the next tick.
  Job AwaitRetired(const std::string& name) {
    Job job;
    while (Get(name, &job).ok() && !job.has_retire_time()) {
    }
    return job;
  }
  std::string Ids(bool retired, int page_size = 1) {
    v1alpha1::ListJobsRequest request;
    request.set_page_size(page_size);
    request.set_retired(retired);
    std::string ids;
    do {
      grpc::ClientContext context;
      SetDeadline(&context);
      v1alpha1::ListJobsResponse page;
      EXPECT_TRUE(jobs_->ListJobs(&context, request, &page).ok());
      for (const Job& job : page.jobs()) ids += job.name().substr(5);
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return ids;
  }
};

TEST_F(RetiredJobsTest, OnlyTheNewestEndedJobsAreKeptWhole) {
  keep_jobs_ = 1;
  Restart();
  MustCreate("live");
  EndJobs({"a", "b", "c"});
  AwaitRetired("jobs/b");
  EXPECT_FALSE(MustGet("jobs/c").has_retire_time());
  const std::string whole = Ids(false), retired = Ids(true);
  EXPECT_EQ(whole, "clive");
  EXPECT_EQ(retired, "ba");
  Restart();
  EXPECT_EQ(Ids(false), "clive");
  EXPECT_EQ(Ids(true, 1000), "ba");
}

TEST_F(RetiredJobsTest, TheirNumberIsBounded) {
  keep_jobs_ = 0;
  keep_retired_ = 2;
  Restart();
  EndJobs({"a", "b", "c"});
  Job job;
  while (Get("jobs/a", &job).ok()) {  // until a tick erases it
  }
  EXPECT_EQ(Ids(true), "cb");
}

TEST_F(RetiredJobsTest, ItsSummaryIsShown) {
  keep_jobs_ = 0;
  Restart();
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  v1alpha1::CreateJobRequest request = Request("gpt");
  request.mutable_job()->mutable_spec()->mutable_queue()->set_project("default");
  request.mutable_job()->mutable_spec()->mutable_queue()->set_priority(7);
  Job created;
  ASSERT_TRUE(Create(request, &created).ok());
  const v1alpha1::Assign assign = worker.Assigned();
  for (int rank : {0, 1}) worker.Prepared(assign, rank);
  for (int64_t step : {1, 2, 3}) {
    for (int rank : {0, 1}) worker.Step(assign, rank, step);
  }
  for (int rank : {0, 1}) worker.Exit(assign, rank, 5);
  Job job = AwaitRetired("jobs/gpt");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(job.state(), Job::SUCCEEDED);
    EXPECT_EQ(job.uid(), created.uid());
    EXPECT_EQ(job.owner(), created.owner());
    EXPECT_EQ(job.spec().steps(), 3);
    EXPECT_EQ(job.spec().queue().priority(), 7);
    EXPECT_EQ(job.spec().queue().project(), "default");
    EXPECT_FALSE(job.spec().has_model());
    EXPECT_EQ(job.progress().steps(), 3);
    EXPECT_EQ(job.progress().total_steps(), 3);
    EXPECT_GT(job.progress().last_loss(), 0);
    EXPECT_FALSE(job.progress().has_ledger());
    EXPECT_EQ(job.placement_size(), 0);
    ASSERT_EQ(job.conditions_size(), 1);
    EXPECT_EQ(job.conditions(0).type(), "Succeeded");
    EXPECT_EQ(job.conditions(0).reason(), "Completed");
    std::vector<v1alpha1::WatchJobResponse> events;
    EXPECT_TRUE(WatchToTheEnd("jobs/gpt", 0, &events).ok());
    ASSERT_EQ(events.size(), 1u);
    EXPECT_TRUE(events[0].job().has_retire_time());
    Restart();
    job = MustGet("jobs/gpt");
  }
}

TEST_F(RetiredJobsTest, WhatIsNotKnownAnyMoreIsRefusedWithTheReason) {
  keep_jobs_ = 0;
  Restart();
  EndJobs({"a"});
  AwaitRetired("jobs/a");
  grpc::ClientContext logs_context, trace_context, resume_context, list_context;
  for (auto* context : {&logs_context, &trace_context, &resume_context, &list_context})
    SetDeadline(context);
  v1alpha1::StreamJobLogsRequest logs;
  logs.set_name("jobs/a");
  EXPECT_REFUSED(jobs_->StreamJobLogs(&logs_context, logs)->Finish(),
                 StatusCode::FAILED_PRECONDITION, "JOB_RETIRED", "job a: found CANCELLED");
  v1alpha1::StreamJobTraceRequest trace;
  trace.set_name("jobs/a");
  EXPECT_REFUSED(jobs_->StreamJobTrace(&trace_context, trace)->Finish(),
                 StatusCode::FAILED_PRECONDITION, "JOB_RETIRED", "job a: found CANCELLED");
  v1alpha1::ResumeJobRequest resume;
  resume.set_name("jobs/a");
  resume.set_steps(9);
  Job job;
  EXPECT_REFUSED(jobs_->ResumeJob(&resume_context, resume, &job), StatusCode::FAILED_PRECONDITION,
                 "JOB_NOT_RESUMABLE", "\"a\"", "was retired");
  v1alpha1::ListJobsRequest list;
  list.set_retired(true);
  list.add_labels()->set_key("team");
  v1alpha1::ListJobsResponse page;
  EXPECT_REFUSED(jobs_->ListJobs(&list_context, list, &page), StatusCode::INVALID_ARGUMENT,
                 "INVALID_FIELD", "labels: ", "found 1");
}

TEST_F(RetiredJobsTest, ItsNameIsTakenUntilItIsDeleted) {
  keep_jobs_ = 0;
  Restart();
  EndJobs({"a"});
  AwaitRetired("jobs/a");
  Job job;
  EXPECT_REFUSED(Create(Request("a"), &job), StatusCode::ALREADY_EXISTS, "JOB_ALREADY_EXISTS",
                 "\"a\"", "CANCELLED, retired");
  ASSERT_TRUE(Delete("jobs/a", &job).ok());
  EXPECT_TRUE(job.has_retire_time());  // as it was
  EXPECT_EQ(Get("jobs/a", &job).error_code(), StatusCode::NOT_FOUND);
  EXPECT_TRUE(Create(Request("a"), &job).ok());
}

// Its spec is not known, so nothing can be compared with it.
TEST_F(RetiredJobsTest, AJobMayContinueFromItsCheckpoints) {
  keep_jobs_ = 0;
  Restart();
  EndJobs({"a"});
  AwaitRetired("jobs/a");
  v1alpha1::CreateJobRequest request = Request("b");
  request.mutable_job()->mutable_spec()->mutable_checkpoint()->set_resume_from("a");
  Job job;
  const grpc::Status created = Create(request, &job);
  EXPECT_TRUE(created.ok()) << created.error_message();
}

}  // namespace
}  // namespace stretto::service

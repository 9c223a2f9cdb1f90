// SPDX-License-Identifier: Apache-2.0

// Projects, quotas and the history of jobs as users see them.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using v1alpha1::Job;

class QueueServiceTest : public ServiceTest {
 protected:
  grpc::Status CreateIn(const std::string& id, const std::string& project, Job* job,
                        int priority = 0) {
    v1alpha1::CreateJobRequest request = Request(id);
    auto* queue = request.mutable_job()->mutable_spec()->mutable_queue();
    queue->set_project(project);
    queue->set_priority(priority);
    return Create(request, job);
  }
  grpc::Status List(const std::string& project, v1alpha1::ListJobsResponse* page,
                    int32_t page_size = 0, const std::string& token = "") {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ListJobsRequest request;
    request.set_project(project);
    request.set_page_size(page_size);
    request.set_page_token(token);
    page->Clear();
    return jobs_->ListJobs(&context, request, page);
  }
  grpc::Status Events(const std::string& name, int64_t after,
                      v1alpha1::ListJobEventsResponse* events) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ListJobEventsRequest request;
    request.set_name(name);
    request.set_after_number(after);
    return jobs_->ListJobEvents(&context, request, events);
  }
};

TEST_F(QueueServiceTest, QuotaIsRefusedWithItsOwnReason) {
  quotas_ = {{"speech", {.devices = 2, .queued = 1}}};
  Restart();
  Job job;
  ASSERT_TRUE(CreateIn("one", "speech", &job).ok());
  EXPECT_EQ(job.spec().queue().project(), "speech");
  EXPECT_REFUSED(CreateIn("two", "speech", &job), StatusCode::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED",
                 "project \"speech\"", "1 job that waits");
  EXPECT_REFUSED(CreateIn("three", "vision", &job), StatusCode::RESOURCE_EXHAUSTED,
                 "QUOTA_EXCEEDED", "project \"vision\"", "speech");
  EXPECT_REFUSED(CreateIn("four", "No", &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "queue.project", "\"No\"");
  // A full disk has the same code, but is nobody's quota.
  ASSERT_TRUE(Cancel("jobs/one", &job).ok());
  refuse_next_commit_ = true;
  const grpc::Status full = CreateIn("five", "speech", &job);
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(full.error_message(), "disk full");
  EXPECT_THAT(telemetry_->Text(), HasSubstr("stretto_project_slots_limit{project=\"speech\"} 2"));
}

// Whatever their projects, and although nobody has a quota.
TEST_F(QueueServiceTest, JobsThatWaitAreBoundedInAll) {
  most_waiting_ = 2;
  Restart();
  Job job;
  ASSERT_TRUE(CreateIn("one", "speech", &job).ok());
  ASSERT_TRUE(CreateIn("two", "vision", &job).ok());
  EXPECT_REFUSED(CreateIn("three", "audio", &job), StatusCode::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED",
                 "found 2 jobs", "fewer than 2", "--max-waiting-jobs");
  ASSERT_TRUE(Cancel("jobs/one", &job).ok());  // a job that has ended makes room
  ASSERT_TRUE(CreateIn("three", "audio", &job).ok());
  Restart();  // and those of an earlier coordinator count
  EXPECT_REFUSED(CreateIn("four", "audio", &job), StatusCode::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED",
                 "found 2 jobs", "fewer than 2", "--max-waiting-jobs");
}

// A plan makes one spec as long as fifty others, so their number alone bounds no memory.
TEST_F(QueueServiceTest, SpecsOfJobsThatWaitAreBounded) {
  Job job;
  ASSERT_TRUE(CreateIn("one", "speech", &job).ok());
  const auto bytes = static_cast<int64_t>(job.spec().ByteSizeLong());
  most_waiting_bytes_ = 2 * bytes;
  Restart();
  ASSERT_TRUE(CreateIn("two", "vision", &job).ok());  // as long a name of a project
  ASSERT_EQ(static_cast<int64_t>(job.spec().ByteSizeLong()), bytes);
  const std::string found = absl::StrCat("found ", 2 * bytes, " bytes of specs");
  EXPECT_REFUSED(CreateIn("three", "vision", &job), StatusCode::RESOURCE_EXHAUSTED,
                 "QUOTA_EXCEEDED", found, absl::StrCat("and ", bytes, " of this one"),
                 absl::StrCat("at most ", 2 * bytes), "--max-waiting-spec-bytes");
  ASSERT_TRUE(Cancel("jobs/one", &job).ok());  // a job that has ended makes room
  ASSERT_TRUE(CreateIn("three", "vision", &job).ok());
  v1alpha1::ResumeJobRequest resume;  // would wait again
  resume.set_name("jobs/one");
  grpc::ClientContext context;
  SetDeadline(&context);
  EXPECT_THAT(jobs_->ResumeJob(&context, resume, &job).error_message(), HasSubstr(found));
  Restart();  // and those of an earlier coordinator count
  EXPECT_REFUSED(CreateIn("four", "vision", &job), StatusCode::RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED",
                 found, "--max-waiting-spec-bytes");
}

TEST_F(QueueServiceTest, ListOfAProjectHasItsJobsAlone) {
  Job job;
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(CreateIn(id, "speech", &job, 5).ok());
  ASSERT_TRUE(CreateIn("d", "vision", &job).ok());
  v1alpha1::ListJobsResponse page;
  ASSERT_TRUE(List("speech", &page, 2).ok());
  ASSERT_EQ(page.jobs_size(), 2);
  EXPECT_EQ(page.jobs(0).name(), "jobs/c");
  ASSERT_TRUE(List("speech", &page, 2, page.next_page_token()).ok());
  ASSERT_EQ(page.jobs_size(), 1);
  EXPECT_EQ(page.jobs(0).name(), "jobs/a");
  EXPECT_EQ(page.next_page_token(), "");
  ASSERT_TRUE(List("nobody", &page).ok());
  EXPECT_EQ(page.jobs_size(), 0);
  EXPECT_REFUSED(List("No", &page), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "project: ", "\"No\"");
  EXPECT_THAT(
      telemetry_->Text(),
      HasSubstr("stretto_queue_jobs{device=\"cpu\",priority=\"positive\",project=\"(other)\"} 3"));
}

TEST_F(QueueServiceTest, EventsAreListedAndSurviveTheCoordinator) {
  Job job;
  ASSERT_TRUE(CreateIn("gpt", "speech", &job, 5).ok());
  ASSERT_TRUE(Cancel("jobs/gpt", &job).ok());
  v1alpha1::ListJobEventsResponse events;
  const auto reasons = [&] {
    std::vector<std::string> found;
    for (const v1alpha1::JobEvent& event : events.events()) found.push_back(event.reason());
    return found;
  };
  ASSERT_TRUE(Events("jobs/gpt", 0, &events).ok());
  EXPECT_THAT(reasons(), ElementsAre("Created", "CancelAsked", "Cancelled"));
  EXPECT_EQ(events.events(0).message(), "priority 5, project speech");
  EXPECT_EQ(events.events(2).state(), Job::CANCELLED);
  EXPECT_EQ(events.events(2).number(), 3);
  EXPECT_GT(events.events(2).time().seconds(), 0);
  Restart();
  ASSERT_TRUE(Events("jobs/gpt", 2, &events).ok());
  EXPECT_THAT(reasons(), ElementsAre("Cancelled"));
  ASSERT_TRUE(Delete("jobs/gpt", &job).ok());
  EXPECT_REFUSED(Events("jobs/gpt", 0, &events), StatusCode::NOT_FOUND, "JOB_NOT_FOUND", "\"gpt\"");
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0

// Labels of jobs, and lists of the jobs that a request selects.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using google::protobuf::Message;
using grpc::StatusCode;
using v1alpha1::Job;

class SelectedJobsTest : public ServiceTest {};

TEST_F(SelectedJobsTest, AListHasTheJobsThatStatesAndLabelsSelect) {
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    v1alpha1::CreateJobRequest request = Request(id);
    auto& labels = *request.mutable_job()->mutable_spec()->mutable_labels();
    labels["id"] = id;
    if (id[0] != 'b') labels["team"] = id[0] == 'c' ? "text" : "speech";
    Job job;
    ASSERT_TRUE(Create(request, &job).ok());
  }
  Job cancelled;
  ASSERT_TRUE(Cancel("jobs/d", &cancelled).ok());
  const auto ids = [&](v1alpha1::ListJobsRequest request) {
    std::string found;
    do {
      grpc::ClientContext context;
      SetDeadline(&context);
      v1alpha1::ListJobsResponse page;
      EXPECT_TRUE(jobs_->ListJobs(&context, request, &page).ok());
      EXPECT_LE(page.jobs_size(), 1);
      // A page is full of jobs that the request selects, however many others lie between.
      EXPECT_TRUE(page.jobs_size() == 1 || page.next_page_token().empty());
      for (const Job& job : page.jobs()) found += job.name().substr(5);
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return found;
  };
  v1alpha1::ListJobsRequest request;
  request.set_page_size(1);
  EXPECT_EQ(ids(request), "edcba");
  request.add_labels()->set_key("team");
  EXPECT_EQ(ids(request), "edca");
  request.mutable_labels(0)->set_value("speech");
  EXPECT_EQ(ids(request), "eda");
  request.add_states(Job::PENDING);
  EXPECT_EQ(ids(request), "ea");
  request.add_states(Job::CANCELLED);
  EXPECT_EQ(ids(request), "eda");
  request.add_labels()->set_key("id");
  request.mutable_labels(1)->set_value("a");
  EXPECT_EQ(ids(request), "a");
  Restart();  // labels are stored
  EXPECT_EQ(ids(request), "a");
  EXPECT_EQ(MustGet("jobs/a").spec().labels().at("team"), "speech");
}

TEST_F(SelectedJobsTest, StatesAndLabelsThatNoJobCanHaveAreRefused) {
  const auto list = [&](const v1alpha1::ListJobsRequest& request) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ListJobsResponse page;
    return jobs_->ListJobs(&context, request, &page);
  };
  v1alpha1::ListJobsRequest request;
  request.add_states(static_cast<Job::State>(99));
  EXPECT_REFUSED(list(request), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "states[0]: ", "found 99");
  request.clear_states();
  for (int i = 0; i < 99; ++i) request.add_states(Job::RUNNING);
  EXPECT_REFUSED(list(request), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "states: ", "found 99");
  request.clear_states();
  Message* label = request.add_labels();
  label->GetReflection()->MutableUnknownFields(label)->AddVarint(4000, 1);
  EXPECT_REFUSED(list(request), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "labels[0]: ", "found field 4000");
  request.clear_labels();
  request.add_labels()->set_key("a b");
  EXPECT_REFUSED(list(request), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "labels[0].key: ", "found \"a b\"");
  request.mutable_labels(0)->set_key("a");
  request.mutable_labels(0)->set_value("-");
  EXPECT_REFUSED(list(request), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "labels[0].value: ", "found \"-\"");
  request.clear_labels();
  for (int i = 0; i < 65; ++i) request.add_labels()->set_key("a");
  EXPECT_REFUSED(list(request), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "labels: ", "found 65");
}

// A map has no order of its own, so equal requests may come as other bytes.
TEST_F(SelectedJobsTest, RequestsWithEqualLabelsAreEqual) {
  v1alpha1::CreateJobRequest forward = Request("gpt"), backward = Request("gpt");
  forward.set_request_id("r-1");
  backward.set_request_id("r-1");
  for (int i = 0; i < 40; ++i) {
    (*forward.mutable_job()->mutable_spec()->mutable_labels())[absl::StrCat("l", i)] = "x";
    (*backward.mutable_job()->mutable_spec()->mutable_labels())[absl::StrCat("l", 39 - i)] = "x";
  }
  Job first, second;
  ASSERT_TRUE(Create(forward, &first).ok());
  ASSERT_TRUE(Create(backward, &second).ok());
  EXPECT_EQ(first.uid(), second.uid());
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/validate_request.h"

#include <gtest/gtest.h>

#include <string>

#include "google/rpc/error_details.pb.h"

namespace stretto::service {
namespace {

google::rpc::BadRequest BadRequestOf(const absl::Status& status) {
  google::rpc::BadRequest bad;
  const auto payload = status.GetPayload("type.googleapis.com/google.rpc.BadRequest");
  if (payload) bad.ParseFromString(std::string(*payload));
  return bad;
}

TEST(ValidateRequest, RefusesBadNamesAndSizes) {
  v1alpha1::CreateJobRequest request;
  request.set_job_id("Bad_Name");
  request.set_request_id("a b");
  const absl::Status status = ValidateCreateRequest(request, 1000);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "job_id: found \"Bad_Name\", expected 1 to 63 of [a-z0-9-], starting with a letter and "
            "not ending with '-' (and 2 more)");
  EXPECT_EQ(BadRequestOf(status).field_violations(1).field(), "request_id");
  EXPECT_EQ(BadRequestOf(status).field_violations(2).field(), "spec");
  EXPECT_EQ(*ParseName("jobs", "jobs/a-1"), "a-1");
  EXPECT_EQ(ParseName("jobs", "workers/a").status().message(),
            "name: found \"workers/a\", expected \"jobs/ID\" where ID is 1 to 63 of [a-z0-9-], "
            "starting with a letter and not ending with '-'");
  EXPECT_EQ(PageSize(-1).status().message(), "page_size: found -1, expected 0 or more");
  EXPECT_EQ(*PageSize(0), 50);
  EXPECT_EQ(*PageSize(100000), 1000);
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/refusal_server.h"

#include <gmock/gmock.h>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

class RefusalServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = RefusalServer::Start({.listen = "127.0.0.1:0"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
  }
  grpc::Status GetJob() {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::Job job;
    return v1alpha1::JobService::NewStub(channel_)->GetJob(&context, {}, &job);
  }
  std::unique_ptr<RefusalServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(RefusalServerTest, CallsEndWithTheLeadersAddress) {
  server_->SetReason("standby; the leader is b:7070", "b:7070");
  const grpc::Status status = GetJob();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "standby; the leader is b:7070");
  EXPECT_EQ(ReasonOf(status), "STANDBY");
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(DetailsOf(status).details(0).UnpackTo(&info));
  ASSERT_EQ(info.metadata_size(), 1);
  EXPECT_EQ(info.metadata(0).key(), "leader");
  EXPECT_EQ(info.metadata(0).value(), "b:7070");
}

TEST_F(RefusalServerTest, StreamsEndToo) {
  grpc::ClientContext context;
  SetDeadline(&context);
  auto session = v1alpha1::WorkerService::NewStub(channel_)->Session(&context);
  v1alpha1::CoordinatorMessage message;
  EXPECT_FALSE(session->Read(&message));
  EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RefusalServerTest, ThePortIsFreeAfterwards) {
  const std::string listen = absl::StrCat("127.0.0.1:", server_->port());
  EXPECT_EQ(RefusalServer::Start({.listen = listen}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetJob().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_.reset();
  EXPECT_TRUE(RefusalServer::Start({.listen = listen}).ok());
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0

// Open streams of several users with certificates.

#include <gmock/gmock.h>

#include <memory>
#include <string>

#include "tests/coordinator/service/tls_harness.h"

namespace stretto::service {
namespace {

class UsersStreamsTest : public TlsServiceTest {
 protected:
  UsersStreamsTest() {
    limits_ = {.most_streams = 3, .most_streams_of_user = 2};
    Start(coordinator::NewMemoryStore());
    const auto worker_channel = As("worker/w0");
    const auto stub = v1alpha1::WorkerService::NewStub(worker_channel);
    FakeWorker worker(*stub, "w0");
    EXPECT_TRUE(worker.Register().has_registered());
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::Job job;
    EXPECT_TRUE(v1alpha1::JobService::NewStub(As("user/root/admin"))
                    ->CreateJob(&context, TinyJob("gpt"), &job)
                    .ok());
  }

  struct Watch {
    explicit Watch(const std::shared_ptr<grpc::Channel>& channel)
        : stub(v1alpha1::JobService::NewStub(channel)) {
      SetDeadline(&context);
      v1alpha1::WatchJobRequest request;
      request.set_name("jobs/gpt");
      reader = stub->WatchJob(&context, request);
      v1alpha1::WatchJobResponse first;
      open = reader->Read(&first);
    }
    ~Watch() {
      context.TryCancel();
      if (!ended) reader->Finish();
    }
    std::string Refusal() {
      ended = true;
      return reader->Finish().error_message();
    }

    std::unique_ptr<v1alpha1::JobService::Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1alpha1::WatchJobResponse>> reader;
    bool open = false, ended = false;
  };
};

// With another certificate, and of other roles, she is the same user.
TEST_F(UsersStreamsTest, OneUserLeavesRoomForOthers) {
  Watch one(As("user/alice/viewer")), two(As("user/alice/admin")), three(As("user/alice/admin"));
  EXPECT_TRUE(one.open && two.open);
  EXPECT_FALSE(three.open);
  EXPECT_EQ(three.Refusal(),
            "found 2 open streams of \"alice\", expected fewer than 2 (stretto-coordinator "
            "--max-streams-of-user)");
  Watch bobs(As("user/bob/viewer")), another(As("user/bob/viewer"));
  EXPECT_TRUE(bobs.open);
  EXPECT_EQ(another.Refusal(),
            "found 3 open streams of users, expected fewer than 3 (stretto-coordinator "
            "--max-streams)");
}

}  // namespace
}  // namespace stretto::service

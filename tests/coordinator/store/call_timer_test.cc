// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/etcd/call_timer.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "etcd/etcd.grpc.pb.h"
#include "proto/base/files.h"

namespace stretto::coordinator {
namespace {

namespace api = etcdserverpb;

// Takes connections and says nothing.
class SilentPeer {
 public:
  SilentPeer() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_.get(), any, size), 0);
    EXPECT_EQ(listen(socket_.get(), 16), 0);
    EXPECT_EQ(getsockname(socket_.get(), any, &size), 0);
    kv_ = api::KV::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", ntohs(address.sin_port)),
                                               grpc::InsecureChannelCredentials()));
  }
  // Without a deadline of its own.
  grpc::StatusCode Call(grpc::ClientContext& context) {
    context.set_wait_for_ready(true);
    api::RangeResponse response;
    return kv_->Range(&context, api::RangeRequest(), &response).error_code();
  }

 private:
  const FileDescriptor socket_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::unique_ptr<api::KV::Stub> kv_;
};

TEST(CallTimerTest, ACallIsCancelledWhenItsTimeIsOver) {
  SilentPeer peer;
  CallTimer timer;
  grpc::ClientContext later, sooner;
  const CallTimer::Watch long_watch(timer, later, absl::Hours(1));
  const CallTimer::Watch watch(timer, sooner, absl::Milliseconds(50));
  EXPECT_FALSE(long_watch.over());
  EXPECT_EQ(peer.Call(sooner), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(watch.over());
  EXPECT_FALSE(long_watch.over());
  // One after the other, too.
  grpc::ClientContext next;
  const CallTimer::Watch next_watch(timer, next, absl::Milliseconds(1));
  EXPECT_EQ(peer.Call(next), grpc::StatusCode::CANCELLED);
}

TEST(CallTimerTest, ACallThatHasEndedIsForgotten) {
  CallTimer timer;
  for (int i = 0; i < 100; ++i) {
    grpc::ClientContext context;
    const CallTimer::Watch watch(timer, context, i % 2 == 0 ? absl::Hours(1) : absl::Duration());
  }
}

}  // namespace
}  // namespace stretto::coordinator

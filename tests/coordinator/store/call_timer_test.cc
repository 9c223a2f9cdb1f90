// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/etcd/call_timer.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "etcd/etcd.grpc.pb.h"
#include "proto/base/files.h"
#include "proto/base/sockets.h"

namespace stretto::coordinator {
namespace {

namespace api = etcdserverpb;

// Takes connections and says nothing.
class SilentPeer {
 public:
  SilentPeer() {
    socket_ = *ListenAt(Resolve("127.0.0.1", 0, /*names=*/false)->front());
    kv_ = api::KV::NewStub(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", LocalAddressOf(socket_.get())->port()),
                            grpc::InsecureChannelCredentials()));
  }
  // Without a deadline of its own.
  grpc::StatusCode Call(grpc::ClientContext& context) {
    context.set_wait_for_ready(true);
    api::RangeResponse response;
    return kv_->Range(&context, api::RangeRequest(), &response).error_code();
  }

 private:
  FileDescriptor socket_;
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

// SPDX-License-Identifier: Apache-2.0

// Calls whose caller has gone before the loop came to them.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

// A store whose commits wait.
struct Held {
  std::atomic<bool> holds = false, entered = false;
};
class HeldStore final : public coordinator::JobStore {
 public:
  explicit HeldStore(Held& held) : held_(held) {}
  absl::StatusOr<coordinator::Snapshot> Load() override { return store_->Load(); }
  absl::Status Commit(const std::vector<coordinator::Record>& records) override {
    held_.entered = true;
    held_.entered.notify_all();
    held_.holds.wait(true);
    return store_->Commit(records);
  }

 private:
  Held& held_;
  std::unique_ptr<coordinator::JobStore> store_ = coordinator::NewMemoryStore();
};

class CancelledCallsTest : public ServiceTest {
 protected:
  // Returns when the server has read what was sent before: it answers without the loop.
  void Settle() {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    SetDeadline(&context);
    const grpc::Slice nothing("");
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer answer;
    std::promise<grpc::Status> ended;
    stub.UnaryCall(&context, "/none/None", grpc::StubOptions(), &request, &answer,
                   [&](grpc::Status status) { ended.set_value(std::move(status)); });
    EXPECT_EQ(ended.get_future().get().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }

  Held held_;
};

TEST_F(CancelledCallsTest, ChangeNothing) {
  store_ = std::make_unique<HeldStore>(held_);
  Restart();
  // A cancellation may come later than the turn of the call, which then counts.
  for (int turn = 0;; ++turn) {
    const std::string kept = absl::StrCat("kept-", turn), gone = absl::StrCat("gone-", turn);
    held_.entered = false;
    held_.holds = true;
    auto first = std::async(std::launch::async, [&] {
      v1alpha1::Job job;
      return Create(Request(kept), &job);
    });
    held_.entered.wait(false);
    grpc::ClientContext context;
    SetDeadline(&context);
    const v1alpha1::CreateJobRequest request = Request(gone);
    v1alpha1::Job answer;
    std::promise<grpc::Status> ended;
    jobs_->async()->CreateJob(&context, &request, &answer,
                              [&](grpc::Status status) { ended.set_value(std::move(status)); });
    Settle();
    context.TryCancel();
    EXPECT_EQ(ended.get_future().get().error_code(), grpc::StatusCode::CANCELLED);
    Settle();
    held_.holds = false;
    held_.holds.notify_all();
    EXPECT_TRUE(first.get().ok());
    v1alpha1::Job job;
    EXPECT_TRUE(Get(absl::StrCat("jobs/", kept), &job).ok());
    const grpc::Status found = Get(absl::StrCat("jobs/", gone), &job);
    if (!found.ok()) {
      EXPECT_EQ(found.error_code(), grpc::StatusCode::NOT_FOUND);
      break;
    }
  }
}

}  // namespace
}  // namespace stretto::service

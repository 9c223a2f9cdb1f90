// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/republishing_store.h"

#include <memory>

#include "gtest/gtest.h"

namespace stretto {
namespace {

// A server that can lose everything it holds.
class ForgetfulStore final : public Store {
 public:
  absl::Status Set(absl::string_view key, absl::string_view bytes) override {
    return current()->Set(key, bytes);
  }
  absl::StatusOr<std::string> Get(absl::string_view key, absl::Duration timeout) override {
    return current()->Get(key, timeout);
  }
  void Forget() {
    std::lock_guard lock(mu_);
    store_ = std::make_shared<MemoryStore>();
  }

 private:
  // Shared: a call may still use the store that is being forgotten.
  std::shared_ptr<MemoryStore> current() {
    std::lock_guard lock(mu_);
    return store_;
  }
  std::mutex mu_;
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST(RepublishingStoreTest, KeyIsThereAgainAfterTheServerForgotIt) {
  ForgetfulStore server;
  RepublishingStore mine(server, absl::Milliseconds(1));
  ASSERT_TRUE(mine.Set("tp/0", "address").ok());

  server.Forget();

  EXPECT_EQ(server.Get("tp/0", absl::Seconds(60)).value(), "address");
}

TEST(RepublishingStoreTest, PassesErrorsOnAndForgetsWhatWasRefused) {
  ForgetfulStore server;
  RepublishingStore mine(server, absl::Hours(1));
  ASSERT_TRUE(server.Set("tp/0", "other").ok());

  EXPECT_EQ(mine.Set("tp/0", "mine").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(mine.Get("tp/1", absl::ZeroDuration()).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace stretto

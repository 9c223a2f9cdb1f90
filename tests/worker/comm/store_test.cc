// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/store.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stretto {
namespace {

TEST(MemoryStoreTest, GetReturnsWhatWasSet) {
  MemoryStore store;
  const std::string bytes("a\0b", 3);
  ASSERT_TRUE(store.Set("key", bytes).ok());

  EXPECT_EQ(store.Get("key", absl::ZeroDuration()).value(), bytes);
}

TEST(MemoryStoreTest, GetWaitsForTheKey) {
  MemoryStore store;
  std::thread setter([&] { EXPECT_TRUE(store.Set("key", "late").ok()); });

  EXPECT_EQ(store.Get("key", absl::Seconds(60)).value(), "late");
  setter.join();
}

TEST(MemoryStoreTest, MissingKeyIsNamedAfterTheTimeout) {
  MemoryStore store;

  const absl::Status status = store.Get("tp/3", absl::Milliseconds(1)).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(std::string(status.message()), "store: key 'tp/3' was not set within 1ms");
}

TEST(MemoryStoreTest, KeysAreWrittenOnceButMayBeRepeated) {
  MemoryStore store;
  ASSERT_TRUE(store.Set("key", "first").ok());

  EXPECT_TRUE(store.Set("key", "first").ok());
  const absl::Status status = store.Set("key", "second");

  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("key 'key' already holds"));
  EXPECT_EQ(store.Get("key", absl::ZeroDuration()).value(), "first");
}

}  // namespace
}  // namespace stretto

#include "worker/daemon/trainer_environment.h"

#include <gtest/gtest.h>

namespace stretto::daemon {
namespace {

TEST(InterfaceTest, IsFoundByItsAddress) {
  EXPECT_EQ(InterfaceWith("127.0.0.1"), "lo");
  EXPECT_EQ(InterfaceWith("192.0.2.1"), "");
}

}  // namespace
}  // namespace stretto::daemon

// SPDX-License-Identifier: Apache-2.0
#include "proto/base/address.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(AddressTest, HostAndPort) {
  EXPECT_EQ(ParseAddress("node-a:7070")->host, "node-a");
  EXPECT_EQ(ParseAddress("node-a:7070")->port, 7070);
  EXPECT_EQ(ParseAddress("[fe80::1]:0")->host, "fe80::1");
  for (const char* bad : {"7070", "127.0.0.1", "a:70000", "a:-1", "a:b", ":7070", "::1:70",
                          "[::1:1", "[:1", "::1]:1", "[]:80", "a b:1", "a,b:1", ""}) {
    const auto address = ParseAddress(bad);
    EXPECT_EQ(address.status().message(), "found \"" + std::string(bad) + "\", expected HOST:PORT");
    EXPECT_TRUE(absl::IsInvalidArgument(address.status())) << bad;
  }
  EXPECT_EQ(ParseAddress("a\n").status().message(), "found \"a\\n\", expected HOST:PORT");
  EXPECT_EQ(ParseAddress("a\x1b[2J:1").status().message(),
            "found \"a\\x1b[2J:1\", expected HOST:PORT");
}

TEST(AddressTest, SeveralAddressesAreSeparatedByCommas) {
  EXPECT_EQ(*ParseAddressList("a:1"), std::vector<std::string>({"a:1"}));
  EXPECT_EQ(*ParseAddressList("a:1,[::1]:2"), (std::vector<std::string>{"a:1", "[::1]:2"}));
  for (const auto& [bad, found] : {std::pair("", ""), std::pair("a:1,", ""),
                                   std::pair("a:1, b:2", " b:2"), std::pair("a:1,b", "b")}) {
    EXPECT_EQ(ParseAddressList(bad).status().message(),
              "found \"" + std::string(found) + "\", expected HOST:PORT");
  }
  EXPECT_EQ(ParseAddressList("a:1,b:2,a:1").status().message(),
            "found \"a:1\" twice, expected different addresses");
}

TEST(AddressTest, LoopbackIsRecognised) {
  for (const char* near : {"127.0.0.1:0", "localhost:7070", "[::1]:1", "127.1.2.3:65535"}) {
    EXPECT_TRUE(IsLoopback(*ParseAddress(near))) << near;
  }
  for (const char* far : {"0.0.0.0:0", "[::]:1", "127.evil.example:1", "10.0.0.1:1"}) {
    EXPECT_FALSE(IsLoopback(*ParseAddress(far))) << far;
  }
}

}  // namespace
}  // namespace stretto

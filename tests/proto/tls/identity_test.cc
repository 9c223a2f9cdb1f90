// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::tls {
namespace {

TEST(IdentityTest, RolesAndNamesAreInTheUri) {
  for (const Role role : {Role::kCoordinator, Role::kWorker, Role::kUser}) {
    const std::string uri = std::string("spiffe://example.org/stretto/") + RoleName(role);
    const auto any = IdentityOf({uri});
    ASSERT_TRUE(any.ok()) << any.status();
    EXPECT_EQ(any->role, role);
    EXPECT_EQ(any->name, "");
    EXPECT_EQ(any->uri, uri);
    EXPECT_EQ(IdentityOf({uri + "/node-a"})->name, "node-a");
  }
}

TEST(IdentityTest, OtherUrisAreLeftAlone) {
  EXPECT_EQ(
      IdentityOf({"https://a/stretto/user", "spiffe://a/ns/b/sa/c", "spiffe://a/stretto/user"})
          ->role,
      Role::kUser);
}

TEST(IdentityTest, WhatIsNotExactlyOneRoleIsNobody) {
  const std::vector<std::vector<std::string>> nobody = {
      {},
      {"spiffe://a/ns/b"},
      {"spiffe:///stretto/user"},
      {"spiffe://a/stretto"},
      {"spiffe://a/stretto/"},
      {"spiffe://a/stretto/admin"},
      {"spiffe://a/stretto/user/"},
      {"spiffe://a/stretto/user/b/c"},
      {"spiffe://a/stretto/User"},
      {"SPIFFE://a/stretto/user"},
      {"spiffe://a/stretto/user", "spiffe://a/stretto/worker"},
      {"spiffe://a/stretto/user", "spiffe://a/stretto/admin"}};
  for (const auto& uris : nobody) {
    const auto identity = IdentityOf(uris);
    EXPECT_TRUE(absl::IsUnauthenticated(identity.status())) << testing::PrintToString(uris);
  }
  EXPECT_EQ(IdentityOf({"spiffe://a/stretto/ad\nmin"}).status().message(),
            "certificate: found the URI spiffe://a/stretto/ad\\nmin, expected one URI "
            "spiffe://TRUST_DOMAIN/stretto/ROLE[/NAME] with the role coordinator, worker or user");
}

}  // namespace
}  // namespace stretto::tls

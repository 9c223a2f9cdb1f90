// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stretto::tls {
namespace {

using ::testing::ElementsAre;

constexpr char kUser[] = "spiffe://a/stretto/user/ann";

std::vector<Grant> GrantsOf(const std::string& tail) {
  const auto identity = IdentityOf({kUser + tail});
  EXPECT_TRUE(identity.ok()) << identity.status();
  return identity.ok() ? identity->grants : std::vector<Grant>();
}

TEST(IdentityTest, RolesAndNamesAreInTheUri) {
  for (const Role role : {Role::kCoordinator, Role::kWorker, Role::kUser}) {
    const std::string uri =
        std::string("spiffe://example.org/stretto/") + RoleName(role) + "/Node_a.1";
    const auto found = IdentityOf({uri});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->role, role);
    EXPECT_EQ(found->name, "Node_a.1");
    EXPECT_EQ(found->uri, uri);
  }
  for (const Role role : {Role::kCoordinator, Role::kWorker}) {
    const auto any = IdentityOf({std::string("spiffe://a/stretto/") + RoleName(role)});
    ASSERT_TRUE(any.ok()) << any.status();
    EXPECT_EQ(any->name, "");
    EXPECT_TRUE(any->grants.empty());
  }
}

TEST(IdentityTest, RolesOfAUserAreOfAProjectOrOfAll) {
  EXPECT_THAT(GrantsOf(""), ElementsAre(Grant{UserRole::kSubmitter, "default"}));
  EXPECT_THAT(GrantsOf("/viewer"), ElementsAre(Grant{UserRole::kViewer, ""}));
  EXPECT_THAT(GrantsOf("/submitter/speech"), ElementsAre(Grant{UserRole::kSubmitter, "speech"}));
  EXPECT_THAT(GrantsOf("/operator/speech/submitter/text/viewer"),
              ElementsAre(Grant{UserRole::kOperator, "speech"}, Grant{UserRole::kSubmitter, "text"},
                          Grant{UserRole::kViewer, ""}));
  // A project may have the name of a role.
  EXPECT_THAT(GrantsOf("/viewer/admin"), ElementsAre(Grant{UserRole::kViewer, "admin"}));
}

TEST(IdentityTest, TheHighestRoleInAProjectCounts) {
  const auto ann = IdentityOf({std::string(kUser) + "/viewer/speech/operator/speech/viewer"});
  ASSERT_TRUE(ann.ok()) << ann.status();
  EXPECT_EQ(RoleIn(*ann, "speech"), UserRole::kOperator);
  EXPECT_EQ(RoleIn(*ann, "text"), UserRole::kViewer);
  EXPECT_EQ(RoleIn(*ann, ""), UserRole::kViewer);
  const auto bob = IdentityOf({std::string(kUser) + "/admin/speech"});
  EXPECT_EQ(RoleIn(*bob, "text"), std::nullopt);
  EXPECT_EQ(RoleIn(*bob, ""), std::nullopt) << "a role in one project is none in all";
}

TEST(IdentityTest, OtherUrisAreLeftAlone) {
  EXPECT_EQ(IdentityOf({"https://a/stretto/user", "spiffe://a/ns/b/sa/c", kUser})->role,
            Role::kUser);
}

TEST(IdentityTest, WhatIsNotExactlyOneRoleIsNobody) {
  const std::string user = kUser;
  const std::vector<std::vector<std::string>> nobody = {
      {},
      {"spiffe://a/ns/b"},
      {"spiffe:///stretto/user/ann"},
      {"spiffe://a/stretto"},
      {"spiffe://a/stretto/"},
      {"spiffe://a/stretto/admin"},
      {"spiffe://a/stretto/admin/ann"},
      {"spiffe://a/stretto/user"},
      {"spiffe://a/stretto/user/"},
      {"spiffe://a/stretto/user/local"},
      {"spiffe://a/stretto/user/an n"},
      {"spiffe://a/stretto/user/ann%20"},
      {"spiffe://a/stretto/user/\u00e4nn"},
      {"spiffe://a/stretto/user/" + std::string(129, 'a')},
      {user + "/"},
      {user + "/owner"},
      {user + "/Admin"},
      {user + "/viewer/"},
      {user + "/viewer/Speech"},
      {user + "/viewer/speech/text"},
      {user + "/viewer/submitter/speech"},
      {"spiffe://a/stretto/worker/node-a/admin"},
      {"spiffe://a/stretto/worker/"},
      {"spiffe://a/stretto/User/ann"},
      {"SPIFFE://a/stretto/user/ann"},
      {user, user},
      {user, "spiffe://a/stretto/worker"},
      {user, "spiffe://a/stretto/admin"}};
  for (const auto& uris : nobody) {
    const auto identity = IdentityOf(uris);
    EXPECT_TRUE(absl::IsUnauthenticated(identity.status())) << testing::PrintToString(uris);
  }
  EXPECT_EQ(IdentityOf({"spiffe://a/stretto/ad\nmin"}).status().message(),
            "certificate: found the URI spiffe://a/stretto/ad\\nmin, expected one URI "
            "spiffe://TRUST_DOMAIN/stretto/ followed by coordinator, worker[/NODE] or "
            "user/NAME[/ROLE/PROJECT]...[/ROLE] with the roles viewer, submitter, operator and "
            "admin");
}

}  // namespace
}  // namespace stretto::tls

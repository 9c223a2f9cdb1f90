// SPDX-License-Identifier: Apache-2.0

// The table of methods and roles: whether it has every method, and whether what it decides is what
// SECURITY.md promises. STRETTO_REWRITE=1 writes the table there.

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/service/authorize.h"
#include "proto/base/files.h"
#include "stretto/v1alpha1/job.pb.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto::service {
namespace {

using ::testing::HasSubstr;
using tls::Grant;
using tls::Identity;
using tls::Role;
using tls::UserRole;

constexpr UserRole kRoles[] = {UserRole::kViewer, UserRole::kSubmitter, UserRole::kOperator,
                               UserRole::kAdmin};

Identity User(const std::vector<Grant>& grants) {
  return {
      .role = Role::kUser, .name = "ann", .uri = "spiffe://t/stretto/user/ann", .grants = grants};
}

Subject JobOf(const std::string& owner) {
  return {.job = "gpt", .owner = owner, .project = "speech"};
}

TEST(RolesTest, EveryMethodOfTheApiHasOneRowAndNoOtherHas) {
  std::set<std::string> expected = {
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};
  for (const auto* file :
       {v1alpha1::Job::descriptor()->file(), v1alpha1::WorkerMessage::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        expected.insert(absl::StrCat("/", file->service(i)->full_name(), "/",
                                     file->service(i)->method(j)->name()));
      }
    }
  }
  std::set<std::string> paths, names;
  for (const Method& method : AllMethods()) {
    EXPECT_TRUE(paths.insert(method.path).second) << method.path;
    EXPECT_TRUE(names.insert(std::string(method.name())).second) << method.name();
    EXPECT_EQ(FindMethod(method.path), &method);
    EXPECT_EQ(&MethodNamed(method.name()), &method);
  }
  EXPECT_EQ(paths, expected);
  EXPECT_EQ(FindMethod("/stretto.v1alpha1.JobService/"), nullptr);
}

// Every method, with every role in every place, of every owner.
TEST(RolesTest, ARoleCountsWhereItWasGivenAndIncludesTheLowerOnes) {
  for (const Method& method : AllMethods()) {
    Identity worker = User({{UserRole::kAdmin, ""}});
    worker.role = Role::kWorker;
    EXPECT_EQ(IsAllowed(method, worker, JobOf("ann")), method.caller == Role::kWorker)
        << method.path;
    if (method.caller != Role::kUser) {
      EXPECT_FALSE(IsAllowed(method, User({{UserRole::kAdmin, ""}}), JobOf("ann"))) << method.path;
      continue;
    }
    const bool anybody = method.scope == Scope::kNone;
    for (const char* owner : {"ann", "bob", ""}) {
      const Subject subject = method.scope == Scope::kProject ? JobOf(owner) : Subject();
      const bool owns = subject.owner == "ann";
      const UserRole least = owns ? method.owner : method.others;
      for (const UserRole role : kRoles) {
        const std::string what = absl::StrCat(method.path, " ", owner, " ", RoleName(role));
        const bool enough = anybody || role >= least;
        EXPECT_EQ(IsAllowed(method, User({{role, ""}}), subject), enough) << what;
        EXPECT_EQ(IsAllowed(method, User({{role, "speech"}}), subject),
                  anybody || (enough && method.scope == Scope::kProject))
            << what;
        EXPECT_EQ(IsAllowed(method, User({{role, "text"}}), subject), anybody) << what;
        EXPECT_EQ(IsAllowed(method, User({{role, "text"}, {UserRole::kViewer, "speech"}}), subject),
                  anybody || (method.scope == Scope::kProject && least == UserRole::kViewer))
            << what;
      }
      EXPECT_EQ(IsAllowed(method, User({}), subject), anybody) << method.path;
    }
  }
}

TEST(RolesTest, WhatChangesSomethingIsAuditedAndNeedsMoreThanToRead) {
  for (const Method& method : AllMethods()) {
    if (method.caller != Role::kUser) continue;
    EXPECT_EQ(method.audited, method.owner > UserRole::kViewer) << method.path;
    EXPECT_LE(method.owner, method.others) << method.path;
  }
}

// The lowest role with which a user may do it.
std::string LeastRole(const Method& method, const std::string& owner) {
  const bool of_project = method.scope == Scope::kProject;
  for (const UserRole role : kRoles) {
    if (method.scope == Scope::kNone && IsAllowed(method, User({}), {})) return "any";
    if (!IsAllowed(method, User({{role, of_project ? "speech" : ""}}),
                   of_project ? JobOf(owner) : Subject())) {
      continue;
    }
    return absl::StrCat(RoleName(role), of_project ? "" : " in every project");
  }
  return "nobody";
}

std::string Table() {
  std::vector<std::string> order;
  std::map<std::string, std::vector<std::string>> methods;  // by the other cells
  for (const Method& method : AllMethods()) {
    if (method.caller != Role::kUser || !absl::StartsWith(method.path, "/stretto.")) continue;
    const std::string cells =
        absl::StrCat(LeastRole(method, "ann"), " | ", LeastRole(method, "bob"), " | ",
                     method.audited ? "yes" : "no");
    if (methods[cells].empty()) order.push_back(cells);
    methods[cells].push_back(absl::StrCat("`", method.name(), "`"));
  }
  std::string table =
      "| method | role of the job's owner | role of another user | audited |\n|---|---|---|---|\n";
  for (const std::string& cells : order) {
    absl::StrAppend(&table, "| ", absl::StrJoin(methods[cells], ", "), " | ", cells, " |\n");
  }
  return table;
}

TEST(RolesTest, SecurityShowsWhatTheCodeDecides) {
  const std::string path = STRETTO_SOURCE_DIR "/SECURITY.md";
  auto page = ReadFile(path);
  ASSERT_TRUE(page.ok()) << page.status();
  const std::string table = Table();
  if (std::getenv("STRETTO_REWRITE") != nullptr) {
    const size_t begin = page->find("| method |"), end = page->find("\n\n", begin);
    ASSERT_NE(end, std::string::npos) << path << " has no table to replace";
    page->replace(begin, end + 1 - begin, table);
    std::ofstream(path) << *page;
  }
  EXPECT_THAT(*page, HasSubstr(table + "\n")) << "STRETTO_REWRITE=1 rewrites " << path;
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/identity.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"

namespace stretto::tls {
namespace {

constexpr char kForm[] =
    "spiffe://TRUST_DOMAIN/stretto/ROLE[/NAME] with the role coordinator, worker or user";
constexpr Role kRoles[] = {Role::kCoordinator, Role::kWorker, Role::kUser};

absl::Status NotOurs(const std::string& found) {
  return absl::UnauthenticatedError(
      absl::StrCat("certificate: found ", absl::CHexEscape(found), ", expected one URI ", kForm));
}

// Returns the words after spiffe://TRUST_DOMAIN/stretto/; none if the URI is not ours.
std::vector<std::string> WordsOf(absl::string_view uri) {
  if (!absl::ConsumePrefix(&uri, "spiffe://")) return {};
  std::vector<std::string> words = absl::StrSplit(uri, '/');
  if (words.size() < 2 || words[0].empty() || words[1] != "stretto") return {};
  if (words.size() == 2) return {""};
  return {words.begin() + 2, words.end()};
}

absl::StatusOr<Identity> Parse(const std::string& uri, const std::vector<std::string>& words) {
  for (const Role role : kRoles) {
    if (words[0] != RoleName(role)) continue;
    if (words.size() == 1) return Identity{role, "", uri};
    if (words.size() == 2 && !words[1].empty()) return Identity{role, words[1], uri};
  }
  return NotOurs(absl::StrCat("the URI ", uri));
}

}  // namespace

const char* RoleName(Role role) {
  switch (role) {
    case Role::kCoordinator:
      return "coordinator";
    case Role::kWorker:
      return "worker";
    case Role::kUser:
      return "user";
  }
  return "";
}

absl::StatusOr<Identity> IdentityOf(const std::vector<std::string>& uris) {
  std::vector<Identity> found;
  for (const std::string& uri : uris) {
    const std::vector<std::string> words = WordsOf(uri);
    if (words.empty()) continue;
    ASSIGN_OR_RETURN(Identity identity, Parse(uri, words));
    found.push_back(std::move(identity));
  }
  if (found.size() == 1) return found[0];
  if (found.size() > 1) return NotOurs(absl::StrCat("the URIs ", absl::StrJoin(uris, " ")));
  return NotOurs(uris.empty() ? "no URI"
                              : absl::StrCat("only the URIs ", absl::StrJoin(uris, " ")));
}

}  // namespace stretto::tls

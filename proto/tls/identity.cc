// SPDX-License-Identifier: Apache-2.0

// The words of the URI's path are read from left to right; what is not exactly of the form is
// nobody.

#include "proto/tls/identity.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/ids.h"

namespace stretto::tls {
namespace {

constexpr char kForm[] =
    "spiffe://TRUST_DOMAIN/stretto/ followed by coordinator, worker[/NODE] or "
    "user/NAME[/ROLE/PROJECT]...[/ROLE] with the roles viewer, submitter, operator and admin";
constexpr Role kRoles[] = {Role::kCoordinator, Role::kWorker, Role::kUser};
constexpr UserRole kUserRoles[] = {UserRole::kViewer, UserRole::kSubmitter, UserRole::kOperator,
                                   UserRole::kAdmin};
constexpr char kDefaultProject[] = "default";
constexpr size_t kMaxName = 128;

absl::Status NotOurs(const std::string& found) {
  return absl::UnauthenticatedError(
      absl::StrCat("certificate: found ", absl::CHexEscape(found), ", expected one URI ", kForm));
}

// Returns the words after spiffe://TRUST_DOMAIN/stretto/; none if the URI is not ours.
std::vector<absl::string_view> WordsOf(absl::string_view uri) {
  if (!absl::ConsumePrefix(&uri, "spiffe://")) return {};
  std::vector<absl::string_view> words = absl::StrSplit(uri, '/');
  if (words.size() < 2 || words[0].empty() || words[1] != "stretto") return {};
  if (words.size() == 2) return {""};
  words.erase(words.begin(), words.begin() + 2);
  return words;
}

std::optional<Role> FindRole(absl::string_view word) {
  for (const Role role : kRoles) {
    if (word == RoleName(role)) return role;
  }
  return std::nullopt;
}

std::optional<UserRole> FindUserRole(absl::string_view word) {
  for (const UserRole role : kUserRoles) {
    if (word == RoleName(role)) return role;
  }
  return std::nullopt;
}

// The characters of a SPIFFE path.
bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ||
                  c == '_';
         });
}

// Reads the words after user/NAME. False if they have another form.
bool ReadGrants(const std::vector<absl::string_view>& words, std::vector<Grant>* grants) {
  for (size_t i = 2; i < words.size(); i += 2) {
    const std::optional<UserRole> role = FindUserRole(words[i]);
    if (!role) return false;
    const bool last = i + 1 == words.size();
    const std::string project(last ? "" : words[i + 1]);
    if (!last && !IsValidName(project)) return false;
    grants->push_back({*role, project});
  }
  if (grants->empty()) grants->push_back({UserRole::kSubmitter, kDefaultProject});
  return true;
}

// Returns nothing if the URI has another form. Every call of every caller is read here, so the
// error is made where it is needed.
std::optional<Identity> Parse(const std::string& uri, const std::vector<absl::string_view>& words) {
  const std::optional<Role> role = FindRole(words[0]);
  if (!role) return std::nullopt;
  Identity identity{
      .role = *role, .name = std::string(words.size() > 1 ? words[1] : ""), .uri = uri};
  if (words.size() > 1 && !IsName(identity.name)) return std::nullopt;
  if (role != Role::kUser) return words.size() > 2 ? std::nullopt : std::optional(identity);
  if (identity.name.empty() || identity.name == kLocalUser) return std::nullopt;
  if (!ReadGrants(words, &identity.grants)) return std::nullopt;
  return identity;
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

const char* RoleName(UserRole role) {
  switch (role) {
    case UserRole::kViewer:
      return "viewer";
    case UserRole::kSubmitter:
      return "submitter";
    case UserRole::kOperator:
      return "operator";
    case UserRole::kAdmin:
      return "admin";
  }
  return "";
}

absl::StatusOr<Identity> IdentityOf(const std::vector<std::string>& uris) {
  std::vector<Identity> found;
  for (const std::string& uri : uris) {
    const std::vector<absl::string_view> words = WordsOf(uri);
    if (words.empty()) continue;
    std::optional<Identity> identity = Parse(uri, words);
    if (!identity) return NotOurs(absl::StrCat("the URI ", uri));
    found.push_back(*std::move(identity));
  }
  if (found.size() == 1) return std::move(found[0]);
  if (found.size() > 1) return NotOurs(absl::StrCat("the URIs ", absl::StrJoin(uris, " ")));
  return NotOurs(uris.empty() ? "no URI"
                              : absl::StrCat("only the URIs ", absl::StrJoin(uris, " ")));
}

std::optional<UserRole> RoleIn(const Identity& user, const std::string& project) {
  std::optional<UserRole> highest;
  for (const Grant& grant : user.grants) {
    if (!grant.project.empty() && grant.project != project) continue;
    if (!highest || grant.role > *highest) highest = grant.role;
  }
  return highest;
}

}  // namespace stretto::tls

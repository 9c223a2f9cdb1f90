// SPDX-License-Identifier: Apache-2.0
#pragma once
// The holder of a certificate and what it may do, from one URI among its subject alternative names:
//   spiffe://TRUST_DOMAIN/stretto/coordinator[/NAME]
//   spiffe://TRUST_DOMAIN/stretto/worker[/NODE]
//   spiffe://TRUST_DOMAIN/stretto/user/NAME[/ROLE/PROJECT]...[/ROLE]
// A user has each ROLE in the PROJECT after it, and the last one, if none follows, in every
// project; a user without roles is submitter in the project "default". The trust domain is not
// compared: the CA file decides which certificates are valid at all.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto::tls {

enum class Role { kCoordinator, kWorker, kUser };

const char* RoleName(Role role);  // "coordinator", "worker", "user"

// Each role includes those before it.
enum class UserRole : uint8_t { kViewer, kSubmitter, kOperator, kAdmin };

const char* RoleName(UserRole role);  // "viewer", "submitter", "operator", "admin"

struct Grant {
  UserRole role = UserRole::kViewer;
  std::string project;  // empty: every project
  bool operator==(const Grant&) const = default;
};

struct Identity {
  Role role = Role::kUser;
  std::string name;                // of a user, or of a worker's node; empty: any node
  std::string uri;                 // as found
  std::vector<Grant> grants = {};  // of a user; at least one
};

// Takes all URIs of a certificate, of which exactly one must be ours; others are ignored. Errors:
// UNAUTHENTICATED (none, several, or one of another form).
absl::StatusOr<Identity> IdentityOf(const std::vector<std::string>& uris);

// Returns the highest role in a project; an empty `project` stands for every project. None if there
// is none.
std::optional<UserRole> RoleIn(const Identity& user, const std::string& project);

}  // namespace stretto::tls

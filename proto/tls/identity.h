// SPDX-License-Identifier: Apache-2.0
#pragma once
// The holder of a certificate, from the URI spiffe://TRUST_DOMAIN/stretto/ROLE[/NAME] among its
// subject alternative names. The trust domain is not compared: the CA file decides which
// certificates are valid at all.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto::tls {

enum class Role { kCoordinator, kWorker, kUser };

const char* RoleName(Role role);  // "coordinator", "worker", "user"

struct Identity {
  Role role = Role::kUser;
  std::string name;  // empty: any name
  std::string uri;   // as found
};

// Takes all URIs of a certificate, of which exactly one must be ours; others are ignored. Errors:
// UNAUTHENTICATED (none, several, or one with another role or form).
absl::StatusOr<Identity> IdentityOf(const std::vector<std::string>& uris);

}  // namespace stretto::tls

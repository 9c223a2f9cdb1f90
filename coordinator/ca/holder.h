// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whom a certificate is for, from what a person types. The names in it are of the form that
// proto/tls/identity.h reads. Pure.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto::ca {

struct Holder {
  std::string name;               // also of the files: "coordinator", "worker-a", "user-alice"
  std::string alternative_names;  // openssl's form
};

// Errors: INVALID_ARGUMENT, naming the flag of `stretto ca issue`, what was found and expected.
absl::StatusOr<Holder> CoordinatorHolder(const std::vector<std::string>& hosts);
absl::StatusOr<Holder> WorkerHolder(const std::string& name);
// A worker of any name.
Holder AnyWorkerHolder();
// `user`: NAME[/ROLE/PROJECT]...[/ROLE].
absl::StatusOr<Holder> UserHolder(const std::string& user);

}  // namespace stretto::ca

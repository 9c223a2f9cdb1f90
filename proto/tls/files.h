// SPDX-License-Identifier: Apache-2.0
#pragma once
// The three files that make a connection mutual TLS: PEM, as cert-manager and openssl write them.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/tls/identity.h"

namespace stretto::tls {

// Paths. All three or none: empty() means no TLS.
struct Files {
  std::string ca = "";           // certificates whose holders are trusted
  std::string certificate = "";  // our own, and those between it and the CA's
  std::string key = "";          // its private key, unencrypted, not readable by everybody

  bool empty() const { return ca.empty() && certificate.empty() && key.empty(); }
};

// Reads and checks them as a peer would at `now`, and returns whom the certificate names: of role
// `role`. Errors name the flag, the file, what was found and what was expected. `files` not
// empty().
//   INVALID_ARGUMENT     only some are given; a file holds no CA, certificate or key
//   NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE  a file cannot be read
//   FAILED_PRECONDITION  a key that others can read or that does not fit the certificate; a
//                        certificate that is expired, of another CA or of another role
absl::StatusOr<Identity> CheckFiles(const Files& files, Role role, absl::Time now);

}  // namespace stretto::tls

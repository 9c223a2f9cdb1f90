// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files of TLS: three of mutual TLS in PEM, as cert-manager and openssl write them, or the CA
// and the token of a user (token.h).

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/tls/identity.h"

namespace stretto::tls {

// Paths. Either the first three are set, or the CA and a token, or none, unless CheckClientFiles
// takes less; empty() means no TLS.
struct Files {
  std::string ca = "";           // certificates of the CA that is trusted
  std::string certificate = "";  // our own certificate and its intermediate ones
  std::string key = "";          // its private key, unencrypted, not readable by everybody
  // How the flags that name these files begin, for messages.
  std::string flags = "--tls-";
  // A user's, which the coordinator takes in place of a certificate; the flag is kTokenFlag.
  std::string token = "";

  bool empty() const { return ca.empty() && certificate.empty() && key.empty() && token.empty(); }
};

inline constexpr char kTokenFlag[] = "--token-file";

// Reads the files, checks them as a peer would at `now`, and returns the identity in the
// certificate, which must have role `role`. Of a token, which only a user may have, nobody but the
// coordinator can tell whose it is: the identity has no name then. Errors name the flag, the file,
// what was found and what was expected. `files` must not be empty().
//   INVALID_ARGUMENT     only some are given; a file holds no CA, certificate or key
//   NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE  a file cannot be read
//   FAILED_PRECONDITION  a key that others can read or that does not fit the certificate; a
//                        certificate that is expired, of another CA or of another role
absl::StatusOr<Identity> CheckFiles(const Files& files, Role role, absl::Time now);

// The same for a client of a server that is not Stretto's: a CA alone is enough, and our
// certificate may be of any CA, without an identity.
absl::Status CheckClientFiles(const Files& files, absl::Time now);

// Errors: FAILED_PRECONDITION if everybody on this machine can read the file of a key, or of
// another secret that `what` names; those of stat.
absl::Status CheckKeyMode(const std::string& path, const char* what = "key");

// When a certificate begins and ends.
struct Lifetime {
  std::string of;  // "own", or "ca" for the CA that issued our own
  absl::Time begin, end;
};

// Returns those of the files as they are now, whether or not they are valid; without those that
// cannot be read, and nothing if `files` are empty().
std::vector<Lifetime> ReadLifetimes(const Files& files);

}  // namespace stretto::tls

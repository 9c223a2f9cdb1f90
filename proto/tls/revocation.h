// SPDX-License-Identifier: Apache-2.0
#pragma once
// The certificates that a CA has revoked, from a file of its revocation lists (RFC 5280, PEM) that
// may be replaced at any time (docs/design/0085-small-authorities.md).

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stretto::tls {

// Thread-safe.
class Revocations {
 public:
  // Reads the lists in `path`, each of which a CA in the file `ca` must have signed. Errors name
  // the flag --tls-crl, the file, what was found and what was expected:
  //   INVALID_ARGUMENT     no list, a damaged or partial one, or something else besides lists
  //   FAILED_PRECONDITION  a list of another CA
  //   NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE  a file cannot be read
  static absl::StatusOr<std::unique_ptr<Revocations>> Open(const std::string& ca,
                                                           const std::string& path);
  ~Revocations();

  // Reads the files again if one of them has changed, and returns whether it did. If they are not
  // as Open wants them, the last good lists hold. One thread at a time.
  bool Refresh();
  // Why the present content of the files is not used; Ok if it is.
  absl::Status status() const;
  // The number of revoked certificates.
  int count() const;

  // Errors: UNAUTHENTICATED, naming the certificate (PEM, the leaf alone), if it is revoked or
  // cannot be read. The result for a certificate is kept until the lists change.
  absl::Status Check(const std::string& certificate) const;

 private:
  struct Impl;
  explicit Revocations(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::tls

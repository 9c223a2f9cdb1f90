// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who calls, by the certificate of his connection or the token of his call, and whether that still
// counts.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/clock.h"
#include "proto/tls/revocation.h"
#include "proto/tls/tokens.h"

namespace stretto::tls {

// What a caller is known by. Without both he is of this process, or there is no TLS.
struct Credential {
  std::string certificate = {};  // in PEM, without those of its issuers
  std::optional<TokenClaims> token = {};

  bool empty() const { return certificate.empty() && !token; }
};

// What came with a call over TLS.
struct Shown {
  std::string certificate = {};                  // in PEM; empty: none
  std::vector<std::string> uris = {};            // of the certificate
  std::vector<std::string> authorizations = {};  // the values of every header `authorization`
};

struct Caller {
  Credential credential = {};
  std::vector<std::string> uris = {};  // of the certificate, or that of the token's holder
};

// Thread-safe.
class Callers {
 public:
  // `revocations` and `tokens` may be null: nothing is revoked, nobody has a token. They are
  // shared, because gRPC may ask longer than a server lives; borrows the clock.
  Callers(std::shared_ptr<const Revocations> revocations, std::shared_ptr<const Tokens> tokens,
          const Clock& clock)
      : revocations_(std::move(revocations)), tokens_(std::move(tokens)), clock_(clock) {}

  // Whether a certificate may be left out.
  bool take_tokens() const { return tokens_ != nullptr; }

  // Returns who calls, whether or not that still counts. A caller shows exactly one of both.
  // Errors: UNAUTHENTICATED.
  absl::StatusOr<Caller> Identify(const Shown& shown) const;

  // Errors: UNAUTHENTICATED, naming the certificate or the token, if it is revoked or has expired.
  // Certificates expire at their next handshake alone. OK for an empty one.
  absl::Status Check(const Credential& credential) const;

 private:
  // The holder of the token in the value of a header `authorization`.
  absl::StatusOr<TokenClaims> HolderOf(absl::string_view authorization) const;

  const std::shared_ptr<const Revocations> revocations_;
  const std::shared_ptr<const Tokens> tokens_;
  const Clock& clock_;
};

}  // namespace stretto::tls

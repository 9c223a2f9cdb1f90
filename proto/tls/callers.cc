// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/callers.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/status_macros.h"

namespace stretto::tls {
namespace {

constexpr absl::string_view kBearer = "Bearer ";

absl::Status Nobody(absl::string_view found) {
  return absl::UnauthenticatedError(
      absl::StrCat("caller: found ", found, ", expected either a certificate or one token"));
}

}  // namespace

absl::StatusOr<Caller> Callers::Identify(const Shown& shown) const {
  const size_t tokens = shown.authorizations.size();
  if (!shown.certificate.empty()) {
    // Neither of them can lend the other what it may do.
    if (tokens > 0 && take_tokens()) return Nobody("a certificate and a header authorization");
    return Caller{{.certificate = shown.certificate}, shown.uris};
  }
  if (tokens == 0) return Nobody("neither");
  if (tokens > 1) return Nobody(absl::StrCat(tokens, " headers authorization"));
  ASSIGN_OR_RETURN(TokenClaims claims, HolderOf(shown.authorizations[0]));
  const std::string uri = claims.holder.uri;
  return Caller{{.token = std::move(claims)}, {uri}};
}

absl::StatusOr<TokenClaims> Callers::HolderOf(absl::string_view authorization) const {
  if (!take_tokens()) return Nobody("a token, which this coordinator does not take");
  // The scheme in any case, as HTTP has it.
  if (!absl::StartsWithIgnoreCase(authorization, kBearer)) {
    return Nobody("a header authorization without a bearer token");
  }
  return tokens_->Verify(authorization.substr(kBearer.size()));
}

absl::Status Callers::Check(const Credential& credential) const {
  if (credential.token) {
    if (tokens_ == nullptr) return Nobody("a token, which this coordinator does not take");
    return tokens_->Check(*credential.token, clock_.Now());
  }
  if (credential.certificate.empty() || revocations_ == nullptr) return absl::OkStatus();
  return revocations_->Check(credential.certificate);
}

}  // namespace stretto::tls

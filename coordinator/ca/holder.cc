// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ca/holder.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/tls/identity.h"

namespace stretto::ca {
namespace {

constexpr char kDomain[] = "spiffe://stretto.local/stretto/";

absl::Status Refused(const char* flag, const std::string& found, const char* expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": found \"", absl::CHexEscape(found), "\", expected ", expected));
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// Letters, digits, '-', '_' and '.', as in names of hosts; nothing that has a meaning in openssl's
// form, such as a comma.
bool IsHostName(const std::string& host) {
  constexpr size_t kMost = 253;
  return !host.empty() && host.size() <= kMost && host[0] != '-' && host[0] != '.' &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                  c == '.';
         });
}

}  // namespace

absl::StatusOr<Holder> CoordinatorHolder(const std::vector<std::string>& hosts) {
  std::string names = absl::StrCat("URI:", kDomain, "coordinator");
  for (const std::string& host : hosts) {
    const bool address = IsAddress(host);
    if (!address && !IsHostName(host)) {
      return Refused("--coordinator-host", host,
                     "the name or the address of a host, without a port");
    }
    absl::StrAppend(&names, address ? ",IP:" : ",DNS:", host);
  }
  if (hosts.empty()) return Refused("--coordinator-host", "", "the name or the address of a host");
  return Holder{"coordinator", names};
}

absl::StatusOr<Holder> WorkerHolder(const std::string& name) {
  const std::string uri = absl::StrCat(kDomain, "worker/", name);
  const absl::StatusOr<tls::Identity> identity = tls::IdentityOf({uri});
  if (!identity.ok() || identity->name.empty()) {
    return Refused("--worker", name,
                   "the --name of a worker: 1 to 128 letters, digits, '.', '-' and '_'");
  }
  return Holder{absl::StrCat("worker-", identity->name), absl::StrCat("URI:", uri)};
}

Holder AnyWorkerHolder() { return {"worker", absl::StrCat("URI:", kDomain, "worker")}; }

absl::StatusOr<Holder> UserHolder(const std::string& user) {
  const std::string uri = absl::StrCat(kDomain, "user/", user);
  const absl::StatusOr<tls::Identity> identity = tls::IdentityOf({uri});
  if (!identity.ok()) {
    return Refused("--user", user,
                   "NAME[/ROLE/PROJECT]...[/ROLE], with a NAME of 1 to 128 letters, digits, '.', "
                   "'-' and '_' that is not \"local\", and the roles viewer, submitter, operator "
                   "and admin");
  }
  return Holder{absl::StrCat("user-", identity->name), absl::StrCat("URI:", uri)};
}

}  // namespace stretto::ca

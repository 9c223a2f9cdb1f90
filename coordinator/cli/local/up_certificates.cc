// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/local/up_certificates.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "coordinator/ca/authority.h"
#include "proto/base/address.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

using ca::Authority;
using ca::Holder;

constexpr absl::Duration kLifetime = absl::Hours(24 * 365);
constexpr absl::Duration kCaLifetime = absl::Hours(24 * 3650);

absl::StatusOr<Authority> OpenOrCreate(const std::string& folder, absl::Time now) {
  absl::StatusOr<Authority> authority = Authority::Open(folder);
  if (authority.ok() || std::filesystem::exists(folder + "/ca.crt")) return authority;
  return Authority::Create(folder, absl::StrCat("Stretto CA ", ca::NewSerial().substr(0, 8)),
                           kCaLifetime, now);
}

absl::StatusOr<std::vector<Holder>> Holders(const std::string& listen, int workers) {
  std::vector<std::string> hosts = {"localhost", "127.0.0.1", "::1"};
  ASSIGN_OR_RETURN(const Address address, ParseAddress(listen));
  if (std::count(hosts.begin(), hosts.end(), address.host) == 0) hosts.push_back(address.host);
  std::vector<Holder> holders;
  ASSIGN_OR_RETURN(Holder coordinator, ca::CoordinatorHolder(hosts));
  holders.push_back(std::move(coordinator));
  for (int i = 1; i <= workers; ++i) {
    ASSIGN_OR_RETURN(Holder worker, ca::WorkerHolder(absl::StrCat("worker-", i)));
    holders.push_back(std::move(worker));
  }
  ASSIGN_OR_RETURN(Holder user, ca::UserHolder("admin/admin"));
  holders.push_back(std::move(user));
  return holders;
}

// Whether the newest certificate of the holder serves him still.
bool Serves(const std::string& folder, const std::vector<ca::Issued>& issued, const Holder& holder,
            absl::Time now) {
  const auto newest = std::find_if(issued.rbegin(), issued.rend(),
                                   [&](const ca::Issued& one) { return one.name == holder.name; });
  const std::string base = absl::StrCat(folder, "/", holder.name);
  return newest != issued.rend() && newest->alternative_names == holder.alternative_names &&
         newest->ValidAt(now) && !newest->DueAt(now) && std::filesystem::exists(base + ".crt") &&
         std::filesystem::exists(base + ".key");
}

}  // namespace

absl::Status PrepareCertificates(const std::string& folder, const std::string& listen, int workers,
                                 absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<Holder> holders, Holders(listen, workers));
  ASSIGN_OR_RETURN(Authority authority, OpenOrCreate(folder, now));
  for (const Holder& holder : holders) {
    if (Serves(folder, authority.issued(), holder, now)) continue;
    RETURN_IF_ERROR(authority.Issue(holder, kLifetime, now).status());
  }
  return absl::OkStatus();
}

}  // namespace stretto::cli

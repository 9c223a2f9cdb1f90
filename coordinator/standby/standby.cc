// SPDX-License-Identifier: Apache-2.0

// Looks for the leader several times a second, and tries to be it when there is none. What it found
// is what callers and probes get, and a line of the log when it changes.

#include "coordinator/standby/standby.h"

#include <spdlog/spdlog.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/service/refusal_server.h"
#include "coordinator/store/etcd/etcd_store.h"
#include "proto/base/address.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(300);

// Ends the process: what it knows may be wrong from now on.
void EndProcess(const std::string& why) {
  spdlog::critical("stopping at once: {}", why);
  std::fprintf(stderr, "stretto-coordinator: %s\n", why.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

std::string ClusterFileIn(const std::string& state_dir) { return state_dir + "/cluster"; }

// The id of the cluster that a coordinator with this folder belongs to; empty: none yet.
absl::StatusOr<std::string> RememberedCluster(const std::string& state_dir) {
  const absl::StatusOr<std::string> text = ReadFile(ClusterFileIn(state_dir));
  if (absl::IsNotFound(text.status())) return "";
  RETURN_IF_ERROR(text.status());
  return std::string(absl::StripAsciiWhitespace(*text));
}

// Waits; true: asked to stop.
bool Pause(const sigset_t& stop) {
  const timespec poll = absl::ToTimespec(kPoll);
  return ::sigtimedwait(&stop, nullptr, &poll) > 0;
}

bool MayPass(const absl::Status& status) {
  return !absl::IsFailedPrecondition(status) && !absl::IsDataLoss(status);
}

// What went wrong, with the cause if TLS is the cause, of which gRPC reports no more than a closed
// connection.
std::string TextOf(const absl::Status& failure, const EtcdClient& client) {
  const std::string why = absl::IsUnavailable(failure) ? client.ExplainFailure() : "";
  return absl::StrCat(failure.message(), why.empty() ? "" : "; ", why);
}

}  // namespace

absl::Status CheckEtcdFlags(const EtcdFlags& flags) {
  const absl::StatusOr<std::vector<std::string>> endpoints = ParseAddressList(flags.endpoints);
  if (!endpoints.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--etcd-endpoints: ", endpoints.status().message()));
  }
  for (const std::string& endpoint : *endpoints) {
    if (IsLoopback(*ParseAddress(endpoint)) || !flags.tls.empty() ||
        flags.insecure_beyond_loopback) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "--etcd-endpoints: found ", endpoint,
        " without TLS, expected a loopback address, or --etcd-ca: whoever reaches etcd could "
        "change the state of every job. --insecure-etcd-beyond-loopback allows it"));
  }
  if (!absl::StartsWith(flags.prefix, "/") || !absl::EndsWith(flags.prefix, "/")) {
    return absl::InvalidArgumentError(absl::StrCat("--etcd-prefix: found \"", flags.prefix,
                                                   "\", expected one that begins and ends with "
                                                   "/, as /stretto/"));
  }
  if (flags.advertise.empty()) return absl::OkStatus();
  const absl::StatusOr<Address> advertised = ParseAddress(flags.advertise);
  if (advertised.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--advertise: ", advertised.status().message()));
}

absl::StatusOr<MoveReport> MoveState(const EtcdFlags& flags, const std::string& state_dir,
                                     const std::string& path, bool to_etcd) {
  RETURN_IF_ERROR(CheckEtcdFlags(flags));
  ASSIGN_OR_RETURN(const std::vector<std::string> endpoints, ParseAddressList(flags.endpoints));
  ASSIGN_OR_RETURN(const auto client, EtcdClient::Connect(endpoints, flags.tls));
  const LeaderOptions options{
      .prefix = flags.prefix, .address = "a move of the state", .ttl = flags.leader_lease};
  absl::StatusOr<Campaign> campaign =
      TryToLead(*client, options, Leadership::LeaseClock(), EndProcess);
  if (!campaign.ok())
    return absl::Status(campaign.status().code(), TextOf(campaign.status(), *client));
  if (campaign->won == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        flags.prefix, " of ", client->name(), ": found the leader ", campaign->leader,
        ", expected none. Stop all coordinators first; after a crash, wait until its lease has "
        "ended, ",
        absl::FormatDuration(flags.leader_lease)));
  }
  const EtcdStoreOptions store{.prefix = flags.prefix};
  ASSIGN_OR_RETURN(MoveReport report, to_etcd
                                          ? MoveToEtcd(path, *client, *campaign->won, store)
                                          : MoveToDatabase(*client, *campaign->won, store, path));
  RETURN_IF_ERROR(WriteFileAtomic(ClusterFileIn(state_dir), report.cluster_id + "\n"));
  return report;
}

absl::Status CheckIsNotInEtcd(const std::string& state_dir, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string cluster, RememberedCluster(state_dir));
  if (cluster.empty() || ::access(path.c_str(), F_OK) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--state-dir: ", state_dir, " belongs to cluster ", cluster,
                   ", whose state is in etcd; expected --etcd-endpoints. To begin a new cluster, "
                   "remove ",
                   ClusterFileIn(state_dir)));
}

void Leader::Guard() const {
  if (leadership->Held()) return;
  for (;;) ::pause();  // whoever lost it ends the process
}

absl::StatusOr<std::unique_ptr<Leader>> AwaitLeadership(const EtcdFlags& flags,
                                                        const service::ServerOptions& server,
                                                        const std::string& state_dir,
                                                        const sigset_t& stop,
                                                        monitoring::Readiness& readiness,
                                                        const std::function<void(int)>& announce) {
  RETURN_IF_ERROR(CheckEtcdFlags(flags));
  ASSIGN_OR_RETURN(const std::vector<std::string> endpoints, ParseAddressList(flags.endpoints));
  auto leader = std::make_unique<Leader>();
  ASSIGN_OR_RETURN(leader->client, EtcdClient::Connect(endpoints, flags.tls));
  ASSIGN_OR_RETURN(auto refusals, service::RefusalServer::Start(server));
  leader->listen =
      absl::StrCat(server.listen.substr(0, server.listen.rfind(':')), ":", refusals->port());
  EtcdStoreOptions store{.prefix = flags.prefix};
  ASSIGN_OR_RETURN(store.cluster_id, RememberedCluster(state_dir));
  const LeaderOptions options{.prefix = flags.prefix,
                              .address = flags.advertise.empty() ? leader->listen : flags.advertise,
                              .ttl = flags.leader_lease};
  announce(refusals->port());

  for (std::string last;;) {
    const auto attempt = [&]() -> absl::StatusOr<std::string> {
      RETURN_IF_ERROR(ReadEtcdCluster(*leader->client, store).status());
      ASSIGN_OR_RETURN(Campaign campaign,
                       TryToLead(*leader->client, options, Leadership::LeaseClock(), EndProcess));
      leader->leadership = std::move(campaign.won);
      return campaign.leader;
    }();
    if (!attempt.ok() && !MayPass(attempt.status())) return attempt.status();
    if (leader->leadership != nullptr) break;
    const std::string found =
        !attempt.ok()
            ? absl::StrCat("standby without a leader: ", TextOf(attempt.status(), *leader->client))
        : attempt->empty() ? "standby; the coordinators choose a leader"
                           : absl::StrCat("standby; the leader is ", *attempt);
    if (found != last) spdlog::info("{}", found);
    last = found;
    refusals->SetReason(found, attempt.ok() ? *attempt : "");
    readiness.Set(absl::UnavailableError(found));
    if (Pause(stop)) return nullptr;
  }
  spdlog::info("leads under {} of {} as {}", flags.prefix, leader->client->name(), options.address);
  readiness.Set(absl::UnavailableError("starting to lead"));
  ASSIGN_OR_RETURN(leader->store, OpenEtcdStore(*leader->client, *leader->leadership, store));
  ASSIGN_OR_RETURN(const std::string cluster, ReadEtcdCluster(*leader->client, store));
  if (store.cluster_id.empty())
    RETURN_IF_ERROR(WriteFileAtomic(ClusterFileIn(state_dir), cluster + "\n"));
  return leader;
}

}  // namespace stretto::coordinator

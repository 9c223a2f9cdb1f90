// SPDX-License-Identifier: Apache-2.0
#pragma once
// A coordinator with its state in etcd: it waits until it leads, and ends as soon as it may not.

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/service/server.h"
#include "coordinator/store/etcd/etcd_client.h"
#include "coordinator/store/etcd/leadership.h"
#include "coordinator/store/etcd/move_state.h"
#include "coordinator/store/job_store.h"
#include "proto/monitoring/monitoring_server.h"
#include "proto/tls/files.h"

namespace stretto::coordinator {

struct EtcdFlags {
  std::string endpoints;  // HOST:PORT, several separated by commas; empty: no etcd
  std::string prefix = "/stretto/";
  // Without a certificate of ours if that and the key are empty.
  tls::Files tls = {.flags = "--etcd-"};
  bool insecure_beyond_loopback = false;
  std::string advertise;  // where others reach this coordinator; empty: at --listen
  absl::Duration leader_lease = absl::Seconds(4);
};

// Checks the flags. Errors: INVALID_ARGUMENT, FAILED_PRECONDITION (an endpoint beyond loopback
// without TLS); they name the flag.
absl::Status CheckEtcdFlags(const EtcdFlags& flags);

// Moves the state between the database at `path` and etcd, `to_etcd` or back, as the leader
// (move_state.h), and remembers the cluster in `state_dir`. Errors: FailedPrecondition (a
// coordinator leads; names its address), those of CheckEtcdFlags and of the move.
absl::StatusOr<MoveReport> MoveState(const EtcdFlags& flags, const std::string& state_dir,
                                     const std::string& path, bool to_etcd);

// A folder that belongs to a cluster, and has no database at `path`, begins no new cluster. Errors:
// FailedPrecondition, which names the cluster.
absl::Status CheckIsNotInEtcd(const std::string& state_dir, const std::string& path);

// A coordinator that leads. The store belongs to whoever serves, and ends before the rest.
struct Leader {
  std::unique_ptr<EtcdClient> client;
  std::unique_ptr<Leadership> leadership;
  std::unique_ptr<JobStore> store;
  std::string listen;  // as ServerOptions::listen, with the port that the standby had

  // Returns if this coordinator leads. If not, the process ends here.
  void Guard() const;
};

// Serves as a standby (service/refusal_server.h) at `server`.listen until it leads, or until one of
// the signals of `stop`, which every thread blocks, has come: then null. `readiness` tells what it
// waits for. Once it leads, the process ends with exit code 1 as soon as its lease may have ended.
// The file `state_dir`/cluster remembers to which cluster it belongs. `announce` gets the port once
// it serves. Errors: those of CheckEtcdFlags, EtcdClient::Connect and OpenEtcdStore, but it waits
// as long as etcd is out of reach; those of RefusalServer::Start.
absl::StatusOr<std::unique_ptr<Leader>> AwaitLeadership(const EtcdFlags& flags,
                                                        const service::ServerOptions& server,
                                                        const std::string& state_dir,
                                                        const sigset_t& stop,
                                                        monitoring::Readiness& readiness,
                                                        const std::function<void(int)>& announce);

}  // namespace stretto::coordinator

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which of several coordinators leads: the one that made the key PREFIX/leader. Its value is the
// leader's address, and it vanishes with the lease of its maker, who renews that all the time.
//
// Every commit of the leader compares the revision at which the key was made, so that etcd refuses
// what an earlier leader sends. What etcd does not see, such as an answer to a client, is kept in
// by the leader's own clock: it counts from before a renewal was sent, so that it ends before the
// lease does in etcd.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/store/etcd/etcd_client.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"

namespace stretto::coordinator {

struct LeaderOptions {
  std::string prefix;   // of all keys; ends with '/'
  std::string address;  // at which others reach this coordinator
  absl::Duration ttl = absl::Seconds(4);
};

// Thread-safe.
class Leadership {
 public:
  // A clock that also counts the time in which the machine was suspended.
  static const Clock& LeaseClock();

  ~Leadership();  // gives the leadership up, so that another one can have it at once
  Leadership(const Leadership&) = delete;
  Leadership& operator=(const Leadership&) = delete;

  // Returns whether the lease holds for sure. If not, `on_lost` has been called.
  bool Held();
  // What every transaction of a leader compares.
  EtcdCompare Fence() const;
  // Whether `found`, the value of the key or null if there is none, is that of this leader. If not,
  // calls `on_lost`.
  bool IsMine(const EtcdValue* found);
  std::string key() const { return options_.prefix + "leader"; }

 private:
  friend struct Campaign;
  friend absl::StatusOr<struct Campaign> TryToLead(EtcdClient&, const LeaderOptions&, const Clock&,
                                                   std::function<void(const std::string&)>);
  Leadership(EtcdClient& client, LeaderOptions options, const Clock& clock, int64_t lease,
             int64_t created, absl::Duration until,
             std::function<void(const std::string&)> on_lost);
  void Renew();
  void Lose(const std::string& why);

  EtcdClient& client_;
  const LeaderOptions options_;
  const Clock& clock_;
  const int64_t lease_;
  const int64_t created_;  // the revision of the key
  const std::function<void(const std::string&)> on_lost_;
  Mutex mu_;
  CondVar changed_;
  absl::Duration until_ GUARDED_BY(mu_);  // on the clock: the lease holds until then
  bool lost_ GUARDED_BY(mu_) = false;
  bool stop_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

struct Campaign {
  std::unique_ptr<Leadership> won;  // null: another one leads
  std::string leader;               // its address
};

// Becomes the leader if there is none. `on_lost` is called once, on any thread, as soon as the
// lease may have ended or another one leads, with the reason; a daemon ends itself there. `client`
// and `clock` are borrowed and must outlive the leadership. Errors: those of EtcdClient.
absl::StatusOr<Campaign> TryToLead(EtcdClient& client, const LeaderOptions& options,
                                   const Clock& clock,
                                   std::function<void(const std::string&)> on_lost);

}  // namespace stretto::coordinator

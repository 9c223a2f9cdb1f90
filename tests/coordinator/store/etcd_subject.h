// SPDX-License-Identifier: Apache-2.0
#pragma once
// A store in etcd, or a move of the state, with all that it needs.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/store/etcd/etcd_store.h"
#include "coordinator/store/etcd/move_state.h"
#include "proto/base/mutex.h"
#include "tests/coordinator/store/etcd_server.h"
#include "tests/coordinator/store/records.h"

namespace stretto::coordinator {

constexpr absl::Duration kEtcdCall = absl::Seconds(10);

inline std::unique_ptr<EtcdClient> ConnectEtcd(const std::string& endpoint) {
  auto client = EtcdClient::Connect({endpoint}, {});
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// Why leaderships were lost.
class Losses {
 public:
  void Add(const std::string& why) {
    const MutexLock lock(mu_);
    why_.push_back(why);
  }
  std::vector<std::string> All() const {
    const MutexLock lock(mu_);
    return why_;
  }

 private:
  mutable Mutex mu_;
  std::vector<std::string> why_ GUARDED_BY(mu_);
};

// A coordinator's side of etcd: it leads and has the store open.
class EtcdSubject final : public JobStore {
 public:
  EtcdSubject(const std::string& endpoint, EtcdStoreOptions options,
              const Clock& clock = Leadership::LeaseClock())
      : client(ConnectEtcd(endpoint)) {
    auto campaign = TryToLead(*client, {.prefix = options.prefix, .address = "a:1"}, clock,
                              [this](const std::string& why) { losses.Add(why); });
    EXPECT_TRUE(campaign.ok()) << campaign.status();
    if (!campaign.ok()) return;
    EXPECT_NE(campaign->won, nullptr) << "led by " << campaign->leader;
    leadership = std::move(campaign->won);
    if (leadership == nullptr) return;
    auto opened = OpenEtcdStore(*client, *leadership, options);
    status = opened.status();
    if (opened.ok()) store = *std::move(opened);
  }

  absl::StatusOr<Snapshot> Load() override { return store->Load(); }
  absl::Status Commit(const std::vector<Record>& records) override {
    return store->Commit(records);
  }

  Losses losses;
  const std::unique_ptr<EtcdClient> client;
  std::unique_ptr<Leadership> leadership;
  absl::Status status;  // of opening
  std::unique_ptr<JobStore> store;
};

inline std::unique_ptr<EtcdSubject> OpenEtcd(const std::string& endpoint,
                                             const std::string& prefix) {
  auto subject = std::make_unique<EtcdSubject>(endpoint, EtcdStoreOptions{.prefix = prefix});
  EXPECT_TRUE(subject->status.ok()) << subject->status;
  return subject;
}

// Who moves a state: the leader under the prefix.
struct Mover {
  Mover(const std::string& endpoint, const std::string& prefix)
      : options{.prefix = prefix}, client(ConnectEtcd(endpoint)) {
    auto campaign = TryToLead(*client, {.prefix = prefix, .address = "a:1"},
                              Leadership::LeaseClock(), [](const std::string&) {});
    EXPECT_TRUE(campaign.ok()) << campaign.status();
    if (campaign.ok()) leadership = std::move(campaign->won);
    EXPECT_NE(leadership, nullptr);
  }

  const EtcdStoreOptions options;
  const std::unique_ptr<EtcdClient> client;
  std::unique_ptr<Leadership> leadership;
};

// One for all tests of this process.
inline EtcdServer& SharedEtcd() {
  struct InFolder {
    ~InFolder() {
      server.Kill();
      std::filesystem::remove_all(folder);
    }
    const std::string folder = [] {
      std::string name = (std::filesystem::temp_directory_path() / "stretto-etcd-XXXXXX").string();
      EXPECT_NE(::mkdtemp(name.data()), nullptr);
      return name;
    }();
    EtcdServer server{folder};
  };
  static InFolder shared;
  return shared.server;
}

// Erases the key of the leader, as etcd does when the lease has ended.
inline void EndLease(const std::string& endpoint, const std::string& prefix) {
  const auto client = ConnectEtcd(endpoint);
  ASSERT_TRUE(
      client
          ->Commit({.compares = {}, .writes = {{.key = prefix + "leader"}}, .reads = {}}, kEtcdCall)
          .ok());
}

}  // namespace stretto::coordinator

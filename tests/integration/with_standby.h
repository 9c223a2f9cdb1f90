// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two coordinators of a ClusterTest with their state in a real etcd.

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/coordinator/store/etcd_server.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {

// `Base` is ClusterTest or derived from it.
template <class Base>
class WithStandby : public Base {
 protected:
  struct Coordinator {
    std::unique_ptr<Process> process;
    std::string endpoints, grpc = "0", metrics = "0";
  };

  void StartEtcd(std::vector<std::string> flags, const tls::Files& files = {}) {
    etcd_.reset();
    std::filesystem::remove_all(this->Path("etcd"));
    std::filesystem::create_directories(this->Path("etcd"));
    etcd_ = std::make_unique<EtcdServer>(this->Path("etcd"), std::move(flags), files);
  }
  std::string Coordinators() const override {
    const std::string a = "127.0.0.1:" + a_.grpc;
    return a_.grpc == b_.grpc ? a : absl::StrCat(a, ",127.0.0.1:", b_.grpc);
  }

  // Again on the same ports and folder, as systemd does it.
  void Start(Coordinator& coordinator, const std::string& name, const Arguments& flags = {}) {
    if (coordinator.endpoints.empty()) coordinator.endpoints = etcd_->endpoint();
    Arguments argv = {STRETTO_BINARY_DIR "/stretto-coordinator",
                      "--listen",
                      "127.0.0.1:" + coordinator.grpc,
                      "--metrics-listen",
                      "127.0.0.1:" + coordinator.metrics,
                      "--state-dir",
                      this->Path(name),
                      "--etcd-endpoints",
                      coordinator.endpoints};
    argv.insert(argv.end(), to_etcd_.begin(), to_etcd_.end());
    argv.insert(argv.end(), flags.begin(), flags.end());
    coordinator.process = std::make_unique<Process>(argv, this->Path("coordinator-log-" + name));
    const std::string line = coordinator.process->AwaitLine("standby ");
    coordinator.grpc = Word(line, "grpc=");
    coordinator.metrics = Word(line, "metrics=");
  }
  // `a` leads, and `b` waits.
  void StartBoth() {
    Start(a_, "a");
    a_.process->AwaitLine("listening ");
    Start(b_, "b");
    const auto ready = [this] { return this->Fetch(b_.metrics, "/readyz"); };
    ASSERT_TRUE(Eventually([&] {
      return absl::StrContains(ready(), "standby; the leader is 127.0.0.1:" + a_.grpc);
    })) << ready();
  }

  std::unique_ptr<EtcdServer> etcd_;
  Arguments to_etcd_;  // flags of every coordinator
  Coordinator a_, b_;

 private:
  static std::string Word(const std::string& line, const std::string& key) {
    const size_t begin = line.find(key) + key.size();
    return line.substr(begin, line.find_first_of(" \n", begin) - begin);
  }
};

}  // namespace stretto::integration

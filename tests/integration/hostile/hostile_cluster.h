// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cluster that attacks share, because starting one takes longer than most of them: a
// coordinator, a worker with two slots, a job "victim" that trains on both, and a job "kept" that
// has ended. After every attack it must be as before. After one that has harmed it, the next begins
// with a new one.

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "stretto/v1alpha1/job.grpc.pb.h"
#include "tests/integration/cluster.h"
#include "tests/proto/tls/certificates.h"

namespace stretto::integration {

// The serial number that the coordinator's revocation list has.
inline constexpr int64_t kRevokedSerial = 4711;

class HostileCluster final : public ClusterTest {
 public:
  // The one of this process, with mutual TLS or without. The other kind ends first, because the end
  // of a cluster ends all children of the process. When one ends, nothing may be lost in what its
  // victim did.
  static HostileCluster& Get(bool tls);
  // Shows its logs. The next row begins with another one.
  static void EndHarmed();

  // Whether all is as it was: a healthy client is answered within a second, the memory of the
  // coordinator is back within its bound, the victim trains on in its first attempt, the worker was
  // never lost, and no acknowledged job is. Failures are those of the test that runs. Returns what
  // was measured, in words.
  std::string ExpectUnharmed();
  // A job that the coordinator has acknowledged, and must know from now on.
  void Acknowledged(const std::string& job) { acknowledged_.push_back(job); }

  // A connection of its own. With TLS it has the certificate of `files`, or a user's.
  std::shared_ptr<grpc::Channel> Channel();
  std::shared_ptr<grpc::Channel> Channel(const tls::Files& files);
  tls::Files Write(const std::string& name, const tls::Certificate& certificate) {
    return ca_.Write(folder_, name, certificate);
  }
  stretto::v1alpha1::Job GetJob(const std::string& name);  // fails the test when it is not there
  int64_t CoordinatorBytes();                              // resident
  // What the coordinator has logged since the last ExpectUnharmed.
  std::string NewLog();

  void StopWorker(const std::string& name) { EXPECT_EQ(worker(name).Kill(), -SIGKILL); }
  // `stretto`, as the user.
  Outcome Run(Arguments arguments);

  using ClusterTest::CheckpointFolder;
  using ClusterTest::coordinator;
  using ClusterTest::Fetch;
  using ClusterTest::folder_;
  using ClusterTest::grpc_port_;
  using ClusterTest::metrics_port_;
  using ClusterTest::page_port_;
  using ClusterTest::Path;
  using ClusterTest::RunFolder;
  using ClusterTest::StartWorker;
  using ClusterTest::Submit;
  using ClusterTest::TearDown;
  using ClusterTest::worker_ports_;

  void ExpectWhole();

 private:
  explicit HostileCluster(bool tls);
  void TestBody() override {}
  void AwaitGrpc(const std::string& job, stretto::v1alpha1::Job::State state, int64_t steps);

  const bool tls_;
  tls::TestCa ca_;
  tls::Files user_;
  std::vector<std::string> acknowledged_ = {"victim", "kept"};
  std::string uid_;  // the victim's
  int64_t bytes_before_ = 0;
  int64_t steps_ = 0;  // of the victim, when it was last looked at
  size_t log_ = 0;     // bytes of the coordinator's log that have been looked at
};

}  // namespace stretto::integration

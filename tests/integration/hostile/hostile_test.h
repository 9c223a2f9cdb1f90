// SPDX-License-Identifier: Apache-2.0
#pragma once
// One row of the table of attacks: a cluster of real processes, a job that trains, and somebody who
// does what nobody should. Afterwards a healthy client is answered within a second, the memory of
// the coordinator is back within its bound, no other job is touched, and nothing that was
// acknowledged is lost. TearDown appends the row to the file that STRETTO_HOSTILE_REPORT names, as a
// line of a table of Markdown (tests/integration/hostile.sh).

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/base/files.h"
#include "stretto/v1alpha1/job.grpc.pb.h"
#include "stretto/v1alpha1/worker.grpc.pb.h"
#include "tests/integration/cluster.h"

namespace stretto::integration {

class HostileTest : public ClusterTest {
 protected:
  // A cluster that trains job "victim" and has acknowledged job "kept".
  void SetUp() override;

  // What is tried, in a line; first of all.
  void Try(const std::string& what) { tried_ = what; }
  // What was seen of it; several are joined.
  void Saw(const std::string& what) { seen_ += (seen_.empty() ? "" : "; ") + what; }
  // As the head of this file says. Ends the victim.
  void ExpectUnharmed();

  // ---- attackers
  // A connection to "127.0.0.1:PORT" that has sent nothing. Invalid if it is refused.
  static FileDescriptor Dial(const std::string& port);
  // Whether the other side closes it within the time; reads what it says before.
  static bool IsClosedWithin(const FileDescriptor& fd, absl::Duration time);
  std::shared_ptr<grpc::Channel> Channel();
  // A worker that registers as `name` with `slots` and then sends `messages`. Returns how its session
  // ended, or OK if it still stood.
  grpc::Status RunWorker(const std::string& name, int slots,
                         const std::vector<stretto::v1alpha1::WorkerMessage>& messages);
  int64_t CoordinatorBytes();  // resident

  void TearDown() override;

 private:
  std::string Verdict() const;

  std::string tried_, seen_;
  int64_t bytes_before_ = 0;
};

}  // namespace stretto::integration

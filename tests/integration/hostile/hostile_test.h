// SPDX-License-Identifier: Apache-2.0
#pragma once
// One row of the table of attacks (table_row.h, tests/integration/hostile.sh): somebody who does
// what nobody should, to the cluster that all attacks share (hostile_cluster.h). When the row ends
// the cluster must be as it was.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/base/files.h"
#include "stretto/v1alpha1/worker.grpc.pb.h"
#include "tests/integration/hostile/hostile_cluster.h"

namespace stretto::integration {

class HostileTest : public ::testing::Test {
 protected:
  explicit HostileTest(bool tls = false) : cluster_(HostileCluster::Get(tls)) {}

  // What is tried, in a line; first of all.
  void Try(const std::string& what) { tried_ = what; }
  // What was seen of it; several are joined.
  void Saw(const std::string& what) { seen_ += (seen_.empty() ? "" : "; ") + what; }
  // Expects a refusal with one of these codes, whose message people can read in a terminal.
  void ExpectRefused(const grpc::Status& status, const std::vector<grpc::StatusCode>& codes);

  // ---- attackers
  // A connection to "127.0.0.1:PORT" that has sent nothing. Invalid if it is refused.
  static FileDescriptor Dial(const std::string& port);
  static void Send(const FileDescriptor& fd, absl::string_view bytes);
  // Whether the other side closes it within the time; reads what it says before, to `answer`.
  static bool IsClosedWithin(const FileDescriptor& fd, absl::Duration time,
                             std::string* answer = nullptr);
  // Calls "SERVICE/METHOD" of stretto.v1alpha1 with any message; the answer is not read.
  grpc::Status Call(const std::string& method, const google::protobuf::Message& request);
  // A worker that registers as `name` with `slots` and then sends `messages`. Returns how its
  // session ended, or OK if it still stood when all were sent and answered.
  grpc::Status RunWorker(const std::string& name, int slots,
                         const std::vector<stretto::v1alpha1::WorkerMessage>& messages);
  grpc::Status RunWorker(const std::vector<stretto::v1alpha1::WorkerMessage>& messages,
                         const std::shared_ptr<grpc::Channel>& channel);
  static stretto::v1alpha1::WorkerMessage Hello(const std::string& name, int slots);

  void TearDown() override;

  HostileCluster& cluster_;

 private:
  std::string tried_, seen_;
  std::shared_ptr<grpc::Channel> channel_;  // of Call
};

}  // namespace stretto::integration

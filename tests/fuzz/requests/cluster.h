// SPDX-License-Identifier: Apache-2.0
#pragma once
// A coordinator in this process, as a target of messages: its services behind gRPC without a
// network, its core and hub, and a store in memory. Job "runs" trains its two ranks on worker
// "node", job "done" has ended, job "waits" finds no slots. After each call the state is again the
// same, so an input does what it does whatever ran before it.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/service/hub.h"
#include "coordinator/store/job_store.h"
#include "coordinator/telemetry/audit.h"

namespace stretto::fuzz {

class Cluster {
 public:
  // If `with_worker`, "node" has a session, and answers requests for logs and traces.
  explicit Cluster(bool with_worker);
  ~Cluster();

  // Calls "/stretto.v1alpha1.SERVICE/METHOD" with these serialised messages, reads what comes until
  // the call ends, and returns how. A call that waits for somebody else is ended after a moment.
  // Then restores the state.
  grpc::Status Call(const std::string& method, const std::vector<std::string>& messages);

 private:
  class Worker;
  class OpenCalls;
  class Meter;
  class Meters;

  // On the loop; returns when it is done.
  void Do(const std::function<void()>& task);
  void Begin(coordinator::Core core);  // with nothing but this core
  void Live();                         // makes snapshot_
  void Restore();
  void Admit();  // makes callers_ and token_
  grpc::Status Run(grpc::GenericClientAsyncReaderWriter& call, grpc::CompletionQueue& queue,
                   const std::vector<std::string>& messages);

  const bool with_worker_;
  FakeClock clock_{absl::FromUnixSeconds(1'800'000'000)};
  telemetry::Telemetry telemetry_;
  const std::unique_ptr<telemetry::AuditLog> audit_ =
      *telemetry::AuditLog::Open("", 0, telemetry_);  // keeps nothing
  std::shared_ptr<const tls::Callers> callers_;
  std::string token_;  // of a user who may do everything
  service::Loop loop_;
  // Made anew at the same address, which the services know, while no call is open.
  std::optional<service::Hub> hub_;
  std::unique_ptr<coordinator::JobStore> store_;
  bool committed_ = false;  // something, since the state was restored; of the loop
  std::unique_ptr<coordinator::Driver> driver_;
  std::unique_ptr<Worker> worker_;
  coordinator::Snapshot snapshot_;
  const std::unique_ptr<OpenCalls> calls_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace stretto::fuzz

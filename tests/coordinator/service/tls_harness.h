// SPDX-License-Identifier: Apache-2.0
#pragma once
// A coordinator with TLS in this process, and callers with certificates of its CA.

#include <grpcpp/generic/generic_stub.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "proto/base/files.h"
#include "proto/tls/credentials.h"
#include "tests/coordinator/service/harness.h"
#include "tests/proto/tls/certificates.h"

namespace stretto::service {

class TlsServiceTest : public ::testing::Test {
 protected:
  TlsServiceTest() {
    std::string name = (std::filesystem::temp_directory_path() / "stretto-tls-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
    Start(coordinator::NewMemoryStore());
  }
  ~TlsServiceTest() override {
    server_.reset();
    spdlog::set_default_logger(before_);
    std::filesystem::remove_all(folder_);
  }

  void Start(std::unique_ptr<coordinator::JobStore> store) {
    server_.reset();
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.tick = absl::Milliseconds(20);
    options.tls = ca_.Write(folder_, "coordinator", tls::kCoordinatorCertificate);
    options.limits = limits_;
    options.tls_crl = tls_crl_;
    options.tokens = tokens_;
    options.audit_log = folder_ + "/audit.log";
    auto server = Server::Start(options, std::move(store), clock_, telemetry_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::shared_ptr<grpc::Channel> As(const tls::Certificate& certificate) {
    const tls::Files files = ca_.Write(folder_, absl::StrCat("caller-", ++callers_), certificate);
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                               tls::ChannelCredentials(files));
  }
  // "user/alice/submitter/speech", "worker"
  std::shared_ptr<grpc::Channel> As(const std::string& what) {
    return As(tls::Certificate{.alternative_names = "URI:spiffe://test/stretto/" + what});
  }

  // Shows no certificate.
  std::shared_ptr<grpc::Channel> WithoutCertificate() {
    const std::string ca = folder_ + "/coordinator.ca";
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                               tls::ChannelCredentials({.ca = ca, .token = "shown with a call"}));
  }

  // Calls a method, also one that streams one answer, with these bytes as the request, and with
  // these headers `authorization`.
  static grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                              const std::string& method, const std::string& bytes = "",
                              const std::vector<std::string>& authorizations = {}) {
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    SetDeadline(&context);
    for (const std::string& one : authorizations) context.AddMetadata("authorization", one);
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  // The coordinator looks at its files at each tick.
  static bool Soon(const std::function<bool()>& holds) {
    for (int i = 0; i < 100'000; ++i) {
      if (holds()) return true;
      std::this_thread::yield();
    }
    return false;
  }
  bool Shows(const std::string& metric) const {
    return telemetry_.Text().find("\n" + metric + "\n") != std::string::npos;
  }

  // Why a coordinator does not start with these options.
  std::string RefusedStart(const ServerOptions& options) {
    return std::string(Server::Start(options, coordinator::NewMemoryStore(), clock_, telemetry_)
                           .status()
                           .message());
  }

  std::string AuditLog() const {
    const auto content = ReadFile(folder_ + "/audit.log");
    EXPECT_TRUE(content.ok()) << content.status();
    return content.value_or("");
  }

  GoldenMessages golden_{"stretto-coordinator"};
  std::string folder_;
  tls::TestCa ca_;
  Limits limits_;                 // as of the next Start
  std::string tls_crl_, tokens_;  // as of the next Start
  int callers_ = 0;
  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  FakeClock clock_{absl::FromUnixSeconds(1'800'000'000)};
  telemetry::Telemetry telemetry_;
  std::unique_ptr<Server> server_;
};

}  // namespace stretto::service

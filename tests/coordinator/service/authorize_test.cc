// SPDX-License-Identifier: Apache-2.0

// A coordinator with TLS: who may call which method of which service, and what is written down.

#include "coordinator/service/authorize.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <optional>
#include <sstream>

#include "proto/tls/credentials.h"
#include "tests/coordinator/service/harness.h"
#include "tests/proto/tls/certificates.h"

namespace stretto::service {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;
using tls::Role;

struct Method {
  std::string path;
  std::optional<Role> role;  // who may call it; nobody without
};

// Every method of every service of our files, found by reflection, and what gRPC adds.
std::vector<Method> AllMethods() {
  std::vector<Method> methods = {
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Role::kUser},
      {"/stretto.v1alpha1.TrainerService/Attach", std::nullopt},  // the worker's, on its own socket
      {"/stretto.v1alpha1.WorkerServiceX/Session", std::nullopt},
      {"/no.such.Service/Method", std::nullopt}};
  for (const char* file : {"stretto/v1alpha1/job.proto", "stretto/v1alpha1/worker.proto"}) {
    const auto* descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindFileByName(file);
    for (int i = 0; i < descriptor->service_count(); ++i) {
      const auto* service = descriptor->service(i);
      const Role role = service->name() == "WorkerService" ? Role::kWorker : Role::kUser;
      for (int j = 0; j < service->method_count(); ++j) {
        methods.push_back(
            {absl::StrCat("/", service->full_name(), "/", service->method(j)->name()), role});
      }
    }
  }
  EXPECT_GE(methods.size(), 15u);
  return methods;
}

class AuthorizeTest : public ::testing::Test {
 protected:
  AuthorizeTest() {
    std::string name = (std::filesystem::temp_directory_path() / "stretto-tls-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    options.tick = absl::Milliseconds(20);
    options.tls = ca_.Write(folder_, "coordinator", tls::kCoordinatorCertificate);
    auto server = Server::Start(options, coordinator::NewMemoryStore(), clock_, telemetry_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~AuthorizeTest() override {
    server_.reset();
    spdlog::set_default_logger(before_);
    std::filesystem::remove_all(folder_);
  }

  std::shared_ptr<grpc::Channel> As(const tls::Certificate& certificate) {
    const tls::Files files = ca_.Write(folder_, absl::StrCat("caller-", ++callers_), certificate);
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                               tls::ChannelCredentials(files));
  }
  std::shared_ptr<grpc::Channel> As(Role role) {
    return As(
        {.alternative_names = absl::StrCat("URI:spiffe://test/stretto/", tls::RoleName(role))});
  }

  static grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& method) {
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    SetDeadline(&context);
    const grpc::Slice nothing;
    const grpc::ByteBuffer request(&nothing, 1);
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

  GoldenMessages golden_{"stretto-coordinator"};
  std::string folder_;
  tls::TestCa ca_;
  int callers_ = 0;
  std::ostringstream log_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  FakeClock clock_{absl::FromUnixSeconds(1'800'000'000)};
  telemetry::Telemetry telemetry_;
  std::unique_ptr<Server> server_;
};

TEST_F(AuthorizeTest, EveryMethodOfEveryServiceAsksForItsRole) {
  for (const Role role : {Role::kCoordinator, Role::kWorker, Role::kUser}) {
    const auto channel = As(role);
    for (const Method& method : AllMethods()) {
      const grpc::Status status = Call(channel, method.path);
      if (role == method.role) {
        EXPECT_NE(status.error_code(), StatusCode::PERMISSION_DENIED) << method.path;
        EXPECT_NE(status.error_code(), StatusCode::UNAUTHENTICATED) << method.path;
        EXPECT_NE(status.error_code(), StatusCode::UNAVAILABLE) << method.path;
      } else {
        EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED)
            << tls::RoleName(role) << " " << method.path << ": " << status.error_message();
      }
    }
  }
}

TEST_F(AuthorizeTest, CertificateWithoutARoleIsNobody) {
  for (const char* names : {"DNS:a", "URI:spiffe://test/stretto/admin",
                            "URI:spiffe://test/stretto/user,URI:spiffe://test/stretto/worker"}) {
    const auto channel = As({.alternative_names = names});
    for (const Method& method : AllMethods()) {
      EXPECT_EQ(Call(channel, method.path).error_code(), StatusCode::UNAUTHENTICATED)
          << names << " " << method.path;
    }
    EXPECT_TRUE(Call(channel, "/grpc.health.v1.Health/Check").ok()) << "health is for all";
  }
}

TEST_F(AuthorizeTest, RefusalNamesMethodRoleAndRemedyAndIsLoggedAndCounted) {
  const grpc::Status status =
      Call(As(tls::WorkerCertificate("node-a")), "/stretto.v1alpha1.JobService/CreateJob");
  golden_.Add(status.error_message(),
              {"\"/stretto.v1alpha1.JobService/CreateJob\": ", "role worker",
               "\"spiffe://test/stretto/worker/node-a\"", "role user"});
  server_->Shutdown();
  EXPECT_THAT(log_.str(),
              HasSubstr("call refused method=\"/stretto.v1alpha1.JobService/CreateJob\" "
                        "caller=\"spiffe://test/stretto/worker/node-a\" "
                        "code=PERMISSION_DENIED"));
  EXPECT_THAT(telemetry_.Text(),
              HasSubstr("stretto_rpcs_total{code=\"PERMISSION_DENIED\",method=\"stretto.v1alpha1."
                        "JobService/CreateJob\"} 1"));
}

TEST_F(AuthorizeTest, WorkerMayRegisterOnlyUnderTheNameOfItsCertificate) {
  const auto named = v1alpha1::WorkerService::NewStub(As(tls::WorkerCertificate("node-a")));
  {
    FakeWorker worker(*named, "node-b");
    EXPECT_FALSE(worker.Register().has_registered());
    EXPECT_REFUSED(worker.Ended(), PERMISSION_DENIED, "WORKER_NAME_MISMATCH", "\"node-b\"",
                   "\"node-a\"");
  }
  FakeWorker worker(*named, "node-a");
  EXPECT_TRUE(worker.Register().has_registered());
  const auto any = v1alpha1::WorkerService::NewStub(As(tls::WorkerCertificate()));
  FakeWorker other(*any, "node-b");
  EXPECT_TRUE(other.Register().has_registered());
}

TEST_F(AuthorizeTest, ChangesAreWrittenDownWithTheirCaller) {
  const auto jobs = v1alpha1::JobService::NewStub(As(tls::kUserCertificate));
  const auto workers = v1alpha1::WorkerService::NewStub(As(Role::kWorker));
  FakeWorker worker(*workers, "node-a");
  ASSERT_TRUE(worker.Register().has_registered());
  v1alpha1::CreateJobRequest request;
  request.set_job_id("gpt");
  request.set_request_id("again and again");
  v1alpha1::Job job;
  const auto create = [&] {
    grpc::ClientContext context;
    SetDeadline(&context);
    return jobs->CreateJob(&context, request, &job).error_code();
  };
  EXPECT_EQ(create(), StatusCode::INVALID_ARGUMENT);
  request.set_validate_only(true);
  request.set_job_id("unseen");
  EXPECT_EQ(create(), StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::CancelJobRequest cancel;
  cancel.set_name("jobs/x result=OK\naudit");
  EXPECT_FALSE(jobs->CancelJob(&context, cancel, &job).ok());
  server_->Shutdown();
  const std::string log = log_.str();
  EXPECT_THAT(log, testing::ContainsRegex(
                       "audit caller=spiffe://test/stretto/user/alice peer=[^ ]*127.0.0.1[^ ]* "
                       "method=CreateJob resource=jobs/gpt request_id=\"again and again\" "
                       "result=INVALID_ARGUMENT\n"));
  EXPECT_THAT(log, HasSubstr("method=CancelJob resource=\"jobs/x result=OK\\naudit\" request_id=- "
                             "result=INVALID_ARGUMENT\n"));
  EXPECT_THAT(log, Not(HasSubstr("unseen")));
}

TEST(Authorize, HealthAloneNeedsNoRole) {
  EXPECT_TRUE(Authorize("/grpc.health.v1.Health/Watch", {}).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(Authorize("/grpc.health.v1.HealthX/Watch", {})));
  EXPECT_TRUE(absl::IsPermissionDenied(Authorize("", {"spiffe://a/stretto/user"})));
}

TEST_F(AuthorizeTest, CoordinatorNeedsACertificateOfItsRole) {
  ServerOptions options;
  options.listen = "0.0.0.0:0";  // which TLS allows
  options.tls = ca_.Write(folder_, "own", tls::kUserCertificate);
  auto server = Server::Start(options, coordinator::NewMemoryStore(), clock_, telemetry_);
  golden_.Hide(folder_, "FOLDER");
  golden_.Add(std::string(server.status().message()), {"role coordinator"});
  options.tls = ca_.Write(folder_, "own", tls::kCoordinatorCertificate);
  server = Server::Start(options, coordinator::NewMemoryStore(), clock_, telemetry_);
  EXPECT_TRUE(server.ok()) << server.status();
}

}  // namespace
}  // namespace stretto::service

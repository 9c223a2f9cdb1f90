// SPDX-License-Identifier: Apache-2.0

// A coordinator with TLS: which certificate may call which method of which service, and what is
// written down.

#include "coordinator/service/authorize.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "proto/base/limits.h"
#include "tests/coordinator/service/tls_harness.h"

namespace stretto::service {
namespace {

using grpc::StatusCode;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using tls::Role;

struct Known {
  std::string path;
  std::optional<Role> role;  // who may call it; nobody without
};

// Every method of every service of our files, found by reflection, and what gRPC adds.
std::vector<Known> KnownMethods() {
  std::vector<Known> methods = {
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

class AuthorizeTest : public TlsServiceTest {
 protected:
  static std::string NameOf(Role role) {
    return absl::StrCat(tls::RoleName(role), role == Role::kUser ? "/root/admin" : "");
  }
};

TEST_F(AuthorizeTest, EveryMethodOfEveryServiceAsksForItsRole) {
  for (const Role role : {Role::kCoordinator, Role::kWorker, Role::kUser}) {
    const auto channel = As(NameOf(role));
    for (const Known& method : KnownMethods()) {
      const grpc::Status status = CallRaw(channel, method.path);
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
  for (const char* names :
       {"DNS:a", "URI:spiffe://test/stretto/admin", "URI:spiffe://test/stretto/user",
        "URI:spiffe://test/stretto/user/a,URI:spiffe://test/stretto/worker"}) {
    const auto channel = As(tls::Certificate{.alternative_names = names});
    for (const Known& method : KnownMethods()) {
      EXPECT_EQ(CallRaw(channel, method.path).error_code(), StatusCode::UNAUTHENTICATED)
          << names << " " << method.path;
    }
    EXPECT_TRUE(CallRaw(channel, "/grpc.health.v1.Health/Check").ok()) << "health is for all";
  }
}

TEST_F(AuthorizeTest, RefusalNamesMethodRoleAndRemedyAndIsLoggedAndCounted) {
  const grpc::Status status =
      CallRaw(As(tls::WorkerCertificate("node-a")), "/stretto.v1alpha1.JobService/CreateJob");
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

// Calls of a wrong certificate cost one line a second, and the audit log keeps what others did.
TEST_F(AuthorizeTest, AFloodOfRefusedCallsWritesFewLines) {
  constexpr int kCalls = 300;
  const auto channel = As(tls::WorkerCertificate("node-a"));
  const auto call = [&channel] {
    return CallRaw(channel, "/stretto.v1alpha1.JobService/CreateJob").error_code();
  };
  for (int i = 0; i < kCalls; ++i) ASSERT_EQ(call(), StatusCode::PERMISSION_DENIED);
  clock_.Advance(absl::Seconds(1));
  ASSERT_EQ(call(), StatusCode::PERMISSION_DENIED);
  server_->Shutdown();
  const auto count = [](const std::string& text, const std::string& words) {
    return std::vector<std::string>(absl::StrSplit(text, words)).size() - 1;
  };
  EXPECT_EQ(count(log_.str(), "call refused "), 2u);
  EXPECT_THAT(log_.str(), HasSubstr("code=PERMISSION_DENIED (299 more were left out)"));
  // The last call and a tick of the server compete for the one line that a second makes room for.
  const auto first = static_cast<size_t>(limits::kAuditRefused.value);
  EXPECT_THAT(count(AuditLog(), " result=PERMISSION_DENIED"), AnyOf(first, first + 1));
  EXPECT_THAT(AuditLog(), HasSubstr(" left_out=200\n"));
  EXPECT_THAT(telemetry_.Text(),
              HasSubstr("stretto_rpcs_total{code=\"PERMISSION_DENIED\",method=\"stretto.v1alpha1."
                        "JobService/CreateJob\"} 301"));
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
  const auto workers = v1alpha1::WorkerService::NewStub(As("worker"));
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
  const std::string log = AuditLog();
  EXPECT_THAT(log, testing::ContainsRegex(
                       "2027-01-15T08:00:00.000Z caller=spiffe://test/stretto/user/alice "
                       "peer=[^ ]*127.0.0.1[^ ]* "
                       "method=CreateJob resource=jobs/gpt request_id=\"again and again\" "
                       "result=INVALID_ARGUMENT\n"));
  EXPECT_THAT(log, HasSubstr("method=CancelJob resource=\"jobs/x result=OK\\naudit\" request_id=- "
                             "result=INVALID_ARGUMENT\n"));
  EXPECT_THAT(log, Not(HasSubstr("unseen")));
}

TEST_F(AuthorizeTest, WorkersAndRefusedCallsAreWrittenDownToo) {
  const auto workers = v1alpha1::WorkerService::NewStub(As(tls::WorkerCertificate("node-a")));
  FakeWorker worker(*workers, "node-a");
  ASSERT_TRUE(worker.Register().has_registered());
  FakeWorker other(*workers, "node-b");
  EXPECT_FALSE(other.Register().has_registered());
  const auto channel = As("worker");
  EXPECT_FALSE(CallRaw(channel, "/stretto.v1alpha1.ClusterService/CordonWorker").ok());
  EXPECT_FALSE(CallRaw(channel, "/stretto.v1alpha1.ClusterService/ListWorkers").ok());
  const std::string log = AuditLog();
  EXPECT_THAT(log, testing::ContainsRegex("caller=spiffe://test/stretto/worker/node-a peer=[^ ]+ "
                                          "method=Session resource=workers/node-a request_id=- "
                                          "result=OK\n"));
  EXPECT_THAT(log, HasSubstr("method=Session resource=workers/node-b request_id=- "
                             "result=PERMISSION_DENIED\n"));
  EXPECT_THAT(log, HasSubstr("caller=spiffe://test/stretto/worker peer=- method=CordonWorker "
                             "resource=- request_id=- result=PERMISSION_DENIED\n"));
  EXPECT_THAT(log, Not(HasSubstr("ListWorkers")));
}

TEST(Authorize, HealthAloneNeedsNoRole) {
  EXPECT_TRUE(AuthorizePath("/grpc.health.v1.Health/Watch", {}).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(AuthorizePath("/grpc.health.v1.HealthX/Watch", {})));
  EXPECT_TRUE(absl::IsPermissionDenied(AuthorizePath("", {"spiffe://a/stretto/user/b"})));
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

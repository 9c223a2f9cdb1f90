// SPDX-License-Identifier: Apache-2.0

// Real handshakes on the loopback, and what ExplainFailure says of those that fail.

#include "proto/tls/credentials.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/tls/explain.h"
#include "proto/tls/x509.h"
#include "tests/proto/tls/certificates.h"
#include "tests/worker/daemon/temp_dir.h"

namespace stretto::tls {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

int64_t SerialOf(const grpc::AuthContext& context) {
  const auto values = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (values.empty()) return 0;
  const auto found = ReadCertificates(absl::string_view(values[0].data(), values[0].size()));
  return found.empty() ? 0 : ASN1_INTEGER_get(X509_get0_serialNumber(found[0].get()));
}

// Keeps the serial number of the last caller's certificate.
class Recorder final : public grpc::AuthMetadataProcessor {
 public:
  grpc::Status Process(const InputMetadata&, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const std::lock_guard lock(mu_);
    serial_ = SerialOf(*context);
    return grpc::Status::OK;
  }
  int64_t serial() {
    const std::lock_guard lock(mu_);
    return serial_;
  }

 private:
  std::mutex mu_;
  int64_t serial_ = 0;
};

// A server that has gRPC's health service and nothing else.
class TlsTest : public ::testing::Test {
 protected:
  // Plain text with empty() files.
  void Serve(const Files& files) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (!files.empty()) {
      credentials = ServerCredentials(files);
      credentials->SetAuthMetadataProcessor(callers_);
    }
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    nothing_ = std::make_unique<grpc::CallbackGenericService>();
    builder.RegisterCallbackGenericService(nothing_.get());  // gRPC wants some service
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  std::string Target(const std::string& host = "127.0.0.1") const {
    return absl::StrCat(host, ":", port_);
  }
  std::shared_ptr<grpc::Channel> Channel(const Files& files) const {
    return grpc::CreateChannel(
        Target(), files.empty() ? grpc::InsecureChannelCredentials() : ChannelCredentials(files));
  }
  // Health.Check over `channel`; `serial` of the server's certificate.
  static grpc::StatusCode Check(const std::shared_ptr<grpc::Channel>& channel,
                                int64_t* serial = nullptr) {
    grpc::GenericStub stub(channel);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Slice nothing;
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (status.ok() && serial != nullptr) *serial = SerialOf(*context.auth_context());
    return status.error_code();
  }
  grpc::StatusCode CheckWith(const Files& files) const { return Check(Channel(files)); }

  Files Write(const std::string& name, const Certificate& wanted) {
    return ca_.Write(dir_.path(), name, wanted);
  }

  daemon::TempDir dir_;
  TestCa ca_;
  TestCa other_ca_{"other CA"};
  std::shared_ptr<Recorder> callers_ = std::make_shared<Recorder>();
  std::unique_ptr<grpc::CallbackGenericService> nothing_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

TEST_F(TlsTest, BothSidesSeeEachOthersCertificate) {
  Certificate coordinator = kCoordinatorCertificate;
  coordinator.serial = 7;
  Serve(Write("coordinator", coordinator));
  Certificate user = kUserCertificate;
  user.serial = 8;
  const Files files = Write("user", user);
  int64_t serial = 0;
  EXPECT_EQ(Check(Channel(files), &serial), grpc::StatusCode::OK);
  EXPECT_EQ(serial, 7);
  EXPECT_EQ(callers_->serial(), 8);
  EXPECT_EQ(ExplainFailure(Target(), files), "");
}

TEST_F(TlsTest, ServersCertificateMayNameTheHostInsteadOfItsAddress) {
  Serve(Write("coordinator",
              {.alternative_names = "URI:spiffe://t/stretto/coordinator,DNS:localhost"}));
  const Files user = Write("user", kUserCertificate);
  EXPECT_EQ(Check(grpc::CreateChannel(Target("localhost"), ChannelCredentials(user))),
            grpc::StatusCode::OK);
  EXPECT_EQ(ExplainFailure(Target("localhost"), user), "");
  EXPECT_EQ(CheckWith(user), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ExplainFailure(Target(), user),
            "its certificate is for localhost, expected 127.0.0.1; use one of its names, or give "
            "it a certificate with this one");
}

TEST_F(TlsTest, ClientOfAnotherCaIsRefused) {
  Serve(Write("coordinator", kCoordinatorCertificate));
  Files stranger = other_ca_.Write(dir_.path(), "stranger", kUserCertificate);
  EXPECT_EQ(CheckWith(stranger), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(
      ExplainFailure(Target(), stranger),
      MatchesRegex(absl::StrCat("its certificate is by CN=test CA and does not lead to "
                                "--tls-ca ",
                                stranger.ca, " \\(.*\\); take the file of the CA that issued it")));
  // One that trusts the coordinator all the same.
  stranger.ca = Write("user", kUserCertificate).ca;
  EXPECT_EQ(CheckWith(stranger), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ExplainFailure(Target(), stranger),
            absl::StrCat("it refuses our certificate ", stranger.certificate,
                         " by CN=other CA; take one of the CA that the coordinator trusts"));
  EXPECT_EQ(callers_->serial(), 0) << "a call came through";
}

TEST_F(TlsTest, ClientWithAnExpiredCertificateIsRefused) {
  Serve(Write("coordinator", kCoordinatorCertificate));
  Certificate expired = kUserCertificate;
  expired.end = -absl::Minutes(1);
  const Files files = Write("user", expired);
  EXPECT_EQ(CheckWith(files), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ExplainFailure(Target(), files),
              AllOf(HasSubstr(absl::StrCat("it refuses our certificate ", files.certificate,
                                           ": found a certificate that expired at")),
                    HasSubstr("; give a new one")));
}

TEST_F(TlsTest, ClientWithoutACertificateIsRefused) {
  Serve(Write("coordinator", kCoordinatorCertificate));
  grpc::SslCredentialsOptions only_root;
  only_root.pem_root_certs = ca_.pem();
  EXPECT_EQ(Check(grpc::CreateChannel(Target(), grpc::SslCredentials(only_root))),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ExplainFailure(Target(), {.ca = Write("user", kUserCertificate).ca}),
            "it wants a certificate of ours; give --tls-certificate and --tls-key");
}

// Another server than the coordinator has no role, and our files have flags of their own.
TEST_F(TlsTest, AnExplanationUsesTheWordsOfTheServer) {
  Serve(Write("server", {.alternative_names = "IP:127.0.0.1"}));
  const Server etcd = {.name = "etcd", .is_coordinator = false};
  Files files = Write("client", {});
  files.flags = "--etcd-";
  EXPECT_EQ(ExplainFailure(Target(), files, etcd), "");
  Files strange = other_ca_.Write(dir_.path(), "strange", {});
  strange.flags = files.flags;
  EXPECT_THAT(ExplainFailure(Target(), strange, etcd),
              HasSubstr("does not lead to --etcd-ca " + strange.ca));
  strange.ca = files.ca;
  EXPECT_THAT(ExplainFailure(Target(), strange, etcd),
              HasSubstr("take one of the CA that etcd trusts"));
}

// It may hang, so nothing is known about TLS.
TEST_F(TlsTest, AServerThatSaysNothingIsNotExplained) {
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), generic, size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), generic, &size), 0);
  port_ = ntohs(address.sin_port);
  EXPECT_EQ(ExplainFailure(Target(), Write("user", kUserCertificate)), "");
}

TEST_F(TlsTest, PlainTextAndTlsDoNotMeet) {
  Serve(Write("coordinator", kCoordinatorCertificate));
  EXPECT_EQ(CheckWith({}), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ExplainFailure(Target(), {}),
            "it speaks TLS, and this client came without; give --tls-ca, --tls-certificate and "
            "--tls-key");
  TearDown();
  Serve({});
  const Files user = Write("user", kUserCertificate);
  EXPECT_EQ(CheckWith(user), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ExplainFailure(Target(), user),
            "it does not speak TLS; leave out --tls-ca, --tls-certificate and --tls-key");
  EXPECT_EQ(ExplainFailure(Target(), {}), "");
}

TEST_F(TlsTest, ServerNeedsTheRoleCoordinatorAndAValidCertificate) {
  const Files user = Write("user", kUserCertificate);
  Serve(Write("worker", {.alternative_names = "URI:spiffe://test/stretto/worker,IP:127.0.0.1"}));
  EXPECT_EQ(CheckWith(user), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ExplainFailure(Target(), user),
            "its certificate has role worker, expected role coordinator");
  TearDown();
  Serve(Write("nobody", {.alternative_names = "IP:127.0.0.1"}));
  EXPECT_EQ(CheckWith(user), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ExplainFailure(Target(), user), HasSubstr("its certificate: found no URI"));
  TearDown();
  Certificate expired = kCoordinatorCertificate;
  expired.end = -absl::Minutes(1);
  Serve(Write("expired", expired));
  EXPECT_EQ(CheckWith(user), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ExplainFailure(Target(), user),
              HasSubstr("its certificate: found a certificate that expired at"));
}

// gRPC by itself would take the common name.
TEST_F(TlsTest, ServersCommonNameIsNoNameOfIts) {
  Serve(Write("bare", {.alternative_names = "URI:spiffe://test/stretto/coordinator",
                       .common_name = "127.0.0.1"}));
  const Files user = Write("user", kUserCertificate);
  EXPECT_EQ(CheckWith(user), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(ExplainFailure(Target(), user), HasSubstr("its certificate is for no name"));
}

TEST_F(TlsTest, NobodyListening) { EXPECT_EQ(ExplainFailure("127.0.0.1:1", {}), ""); }

// Asks until `done` or 20 s are over.
template <class Done>
bool Eventually(Done done) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (absl::Now() < deadline) {
    if (done()) return true;
  }
  return false;
}

TEST_F(TlsTest, ReplacedFilesServeNewConnectionsAndOpenOnesGoOn) {
  Serve(Write("coordinator", kCoordinatorCertificate));
  const auto credentials = ChannelCredentials(Write("user", kUserCertificate));
  const auto new_connection = [&] {
    grpc::ChannelArguments apart;
    apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(Target(), credentials, apart);
  };
  const std::shared_ptr<grpc::Channel> open = new_connection();
  int64_t serial = 0;
  ASSERT_EQ(Check(open, &serial), grpc::StatusCode::OK);
  EXPECT_EQ(serial, 1);

  Certificate renewed = kCoordinatorCertificate;
  renewed.serial = 2;
  Write("coordinator", renewed);
  EXPECT_TRUE(
      Eventually([&] { return Check(new_connection(), &serial) == grpc::OK && serial == 2; }));
  EXPECT_EQ(Check(open, &serial), grpc::StatusCode::OK);
  EXPECT_EQ(serial, 1);

  Certificate again = kUserCertificate;
  again.serial = 9;
  Write("user", again);
  EXPECT_TRUE(
      Eventually([&] { return Check(new_connection()) == grpc::OK && callers_->serial() == 9; }));
  EXPECT_EQ(Check(open), grpc::StatusCode::OK);
  EXPECT_EQ(callers_->serial(), 1);
}

TEST_F(TlsTest, AnotherCaIsTrustedWhenItsFileIs) {
  const Files coordinator = Write("coordinator", kCoordinatorCertificate);
  Serve(coordinator);
  Files user = other_ca_.Write(dir_.path(), "user", kUserCertificate);
  user.ca = coordinator.ca;
  const auto credentials = ChannelCredentials(user);
  const auto check = [&] {
    grpc::ChannelArguments apart;
    apart.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return Check(grpc::CreateCustomChannel(Target(), credentials, apart));
  };
  EXPECT_EQ(check(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(WriteFileAtomic(coordinator.ca, ca_.pem() + other_ca_.pem()).ok());
  EXPECT_TRUE(Eventually([&] { return check() == grpc::StatusCode::OK; }));
}

}  // namespace
}  // namespace stretto::tls

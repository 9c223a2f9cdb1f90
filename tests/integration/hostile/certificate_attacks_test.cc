// SPDX-License-Identifier: Apache-2.0

// Certificates of every wrong kind, each as a user and as a worker. Two right ones are among them,
// so that a cluster that refuses everybody is found out.

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/hostile/hostile_test.h"

namespace stretto::integration {
namespace {

using grpc::StatusCode;
using tls::Certificate;

enum class Issuer { kCluster, kStranger, kSameName };
// What a method answers: that it was called, that this holder may not call it, or that the
// handshake failed.
enum class Answer { kCalled, kRefused, kNoHandshake };

struct Case {
  const char* name;
  const char* tried;
  Certificate certificate;
  Issuer issuer;
  Answer user, worker;  // of ListJobs, and of a session as "node-b"
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

Certificate Of(const std::string& uri) { return {.alternative_names = uri}; }
Certificate Valid(absl::Duration begin, absl::Duration end) {
  Certificate certificate = tls::kUserCertificate;
  certificate.begin = begin;
  certificate.end = end;
  return certificate;
}
Certificate Revoked(Certificate certificate) {
  certificate.serial = kRevokedSerial;
  return certificate;
}
Certificate ForUse(const std::string& usage) {
  Certificate certificate = tls::kUserCertificate;
  certificate.usage = usage;
  return certificate;
}

using enum Answer;
const std::vector<Case> kCases = {
    {"User", "a user's certificate, which is right", tls::kUserCertificate, Issuer::kCluster,
     kCalled, kRefused},
    {"Worker", "the worker's certificate, which is right", tls::WorkerCertificate("node-b"),
     Issuer::kCluster, kRefused, kCalled},
    {"AnotherWorker", "the certificate of another node", tls::WorkerCertificate("node-c"),
     Issuer::kCluster, kRefused, kRefused},
    {"Coordinator", "the coordinator's role", tls::kCoordinatorCertificate, Issuer::kCluster,
     kRefused, kRefused},
    {"Expired", "a certificate that has expired", Valid(-absl::Hours(2), -absl::Hours(1)),
     Issuer::kCluster, kNoHandshake, kNoHandshake},
    {"NotYetValid", "a certificate that is not valid yet", Valid(absl::Hours(1), absl::Hours(2)),
     Issuer::kCluster, kNoHandshake, kNoHandshake},
    {"RevokedUser", "a user's certificate that is revoked", Revoked(tls::kUserCertificate),
     Issuer::kCluster, kRefused, kRefused},
    {"RevokedWorker", "a worker's certificate that is revoked",
     Revoked(tls::WorkerCertificate("node-b")), Issuer::kCluster, kRefused, kRefused},
    {"AnotherCa", "a certificate of another CA", tls::kUserCertificate, Issuer::kStranger,
     kNoHandshake, kNoHandshake},
    {"CaOfTheSameName", "a certificate of a CA with the name of ours", tls::kUserCertificate,
     Issuer::kSameName, kNoHandshake, kNoHandshake},
    {"ForServers", "a certificate that is for servers alone", ForUse("serverAuth"),
     Issuer::kCluster, kNoHandshake, kNoHandshake},
    {"ForMail", "a certificate that is for mail", ForUse("emailProtection"), Issuer::kCluster,
     kNoHandshake, kNoHandshake},
    {"NoName", "a certificate without names", {}, Issuer::kCluster, kRefused, kRefused},
    {"HostName", "a certificate with a host's name alone", Of("DNS:node-a"), Issuer::kCluster,
     kRefused, kRefused},
    {"TwoRoles", "two roles in a certificate",
     Of("URI:spiffe://test/stretto/user/alice,URI:spiffe://test/stretto/worker/node-b"),
     Issuer::kCluster, kRefused, kRefused},
    {"UnknownRole", "a role that is not", Of("URI:spiffe://test/stretto/admin/root"),
     Issuer::kCluster, kRefused, kRefused},
    {"RoleWithMore", "a role with more behind it",
     Of("URI:spiffe://test/stretto/user/alice/and/more"), Issuer::kCluster, kRefused, kRefused},
    {"AnotherScheme", "a role in a URI of another scheme",
     Of("URI:https://test/stretto/user/alice"), Issuer::kCluster, kRefused, kRefused},
    {"RoleOfAnotherProgram", "a role of another program", Of("URI:spiffe://test/other/user/alice"),
     Issuer::kCluster, kRefused, kRefused},
    {"RoleInCapitals", "a role in capitals", Of("URI:spiffe://test/STRETTO/USER/alice"),
     Issuer::kCluster, kRefused, kRefused},
};

class Certificates : public HostileTest, public testing::WithParamInterface<Case> {
 protected:
  Certificates() : HostileTest(/*tls=*/true) {}

  tls::Files Files() {
    const Case& test = GetParam();
    tls::Files files = cluster_.Write(test.name, test.certificate);
    if (test.issuer == Issuer::kCluster) return files;
    const std::string ca = files.ca;  // it knows whom to trust
    const tls::TestCa other(test.issuer == Issuer::kStranger ? "other CA" : "test CA");
    files = other.Write(cluster_.folder_, absl::StrCat(test.name, "-other"), test.certificate);
    files.ca = ca;
    return files;
  }
  void ExpectAnswer(const grpc::Status& status, Answer expected) {
    const bool handshake = status.error_code() != StatusCode::UNAVAILABLE;
    EXPECT_EQ(status.ok(), expected == kCalled) << status.error_message();
    EXPECT_EQ(handshake, expected != kNoHandshake) << status.error_message();
    if (expected == kRefused) {
      EXPECT_TRUE(status.error_code() == StatusCode::UNAUTHENTICATED ||
                  status.error_code() == StatusCode::PERMISSION_DENIED)
          << status.error_code() << " " << status.error_message();
    }
  }
};

TEST_P(Certificates, AreTakenForWhatTheyAre) {
  const Case& test = GetParam();
  Try(absl::StrCat(test.tried, ", as a user and as worker node-b"));
  const std::shared_ptr<grpc::Channel> channel = cluster_.Channel(Files());
  v1alpha1::ListJobsResponse jobs;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const grpc::Status user = v1alpha1::JobService::NewStub(channel)->ListJobs(&context, {}, &jobs);
  ExpectAnswer(user, test.user);
  const grpc::Status worker = RunWorker({Hello("node-b", 1)}, channel);
  ExpectAnswer(worker, test.worker);
  Saw(absl::StrCat("user: ", user.ok() ? "called" : user.error_message(),
                   "; worker: ", worker.ok() ? "called" : worker.error_message()));
}
INSTANTIATE_TEST_SUITE_P(Tls, Certificates, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

class WithoutCertificate : public HostileTest {
 protected:
  WithoutCertificate() : HostileTest(/*tls=*/true) {}
};

TEST_F(WithoutCertificate, AClientWithoutTlsIsRefused) {
  Try("a client and a worker without TLS");
  const auto channel = cluster_.Channel(tls::Files());
  v1alpha1::ListJobsResponse jobs;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const grpc::Status user = v1alpha1::JobService::NewStub(channel)->ListJobs(&context, {}, &jobs);
  ExpectRefused(user, {StatusCode::UNAVAILABLE});
  ExpectRefused(RunWorker({Hello("node-b", 1)}, channel), {StatusCode::UNAVAILABLE});
}

TEST_F(WithoutCertificate, ANodesCertificateIsNoOtherNodes) {
  Try("the certificate of node-b, as worker node-a");
  const auto channel = cluster_.Channel(cluster_.Write("stolen", tls::WorkerCertificate("node-b")));
  ExpectRefused(RunWorker({Hello("node-a", 2)}, channel), {StatusCode::PERMISSION_DENIED});
}

}  // namespace
}  // namespace stretto::integration

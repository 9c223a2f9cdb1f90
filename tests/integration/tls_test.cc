// SPDX-License-Identifier: Apache-2.0

// A cluster with mutual TLS on every control hop.

#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/integration/cluster.h"
#include "tests/proto/tls/certificates.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Arguments Flags(const tls::Files& files) {
  return {"--tls-ca", files.ca, "--tls-certificate", files.certificate, "--tls-key", files.key};
}

class TlsClusterTest : public ClusterTest {
 protected:
  TlsClusterTest() {
    for (const char* name :
         {"STRETTO_TLS_CA", "STRETTO_TLS_CERTIFICATE", "STRETTO_TLS_KEY", "STRETTO_TOKEN_FILE"}) {
      unsetenv(name);
    }
  }
  ~TlsClusterTest() override { Become({}); }

  tls::Files Write(const std::string& name, const tls::Certificate& certificate) {
    return ca_.Write(folder_, name, certificate);
  }
  // From here on every `stretto` has these files, from its environment.
  static void Become(const tls::Files& files) {
    setenv("STRETTO_TLS_CA", files.ca.c_str(), 1);
    setenv("STRETTO_TLS_CERTIFICATE", files.certificate.c_str(), 1);
    setenv("STRETTO_TLS_KEY", files.key.c_str(), 1);
  }
  void StartTlsCoordinator() {
    StartCoordinator(Flags(Write("coordinator-tls", tls::kCoordinatorCertificate)));
  }
  // And a worker, and a user's certificate for the client.
  void StartTlsCluster() {
    StartTlsCoordinator();
    StartWorker("node-a", 2, Flags(Write("node-a-tls", tls::WorkerCertificate("node-a"))));
    Become(Write("user-tls", tls::kUserCertificate));
  }
  std::string ListJobsError() {
    const Outcome outcome = Stretto({"job", "list"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, Not(HasSubstr("handshake")));
    return outcome.err;
  }
  tls::TestCa ca_;
};

TEST_F(TlsClusterTest, TrainsAndWritesDownWho) {
  StartTlsCluster();
  RunJob({.name = "tiny", .steps = 3});
  EXPECT_EQ(Stretto({"job", "cancel", "tiny"}).code, 1);  // has ended
  const std::string audit = Path("coordinator") + "/audit.log";
  EXPECT_THAT(ContentOf(audit), HasSubstr(" caller=spiffe://test/stretto/user/alice "));
  EXPECT_THAT(ContentOf(audit), HasSubstr("method=CancelJob resource=jobs/tiny"));
  EXPECT_THAT(Stretto({"job", "list"}).out, HasSubstr("alice"));
  EXPECT_THAT(Stretto({"worker", "list"}).out, HasSubstr("node-a"));
  // The same files as flags.
  const tls::Files user = Write("user-tls", tls::kUserCertificate);
  Become({});
  Arguments list = {"job", "list"};
  for (const std::string& flag : Flags(user)) list.push_back(flag);
  EXPECT_THAT(Stretto(list).out, HasSubstr("tiny"));
  // Another user of the project.
  Become(Write("bob-tls", {.alternative_names = "URI:spiffe://test/stretto/user/bob"}));
  const Outcome refused = Stretto({"job", "delete", "tiny"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("DeleteJob: job tiny of alice: found user bob with role "
                                     "submitter in project default, expected role operator"));
  EXPECT_THAT(ContentOf(audit), HasSubstr("method=DeleteJob resource=jobs/tiny request_id=- "
                                          "result=PERMISSION_DENIED\n"));
}

// With the certificates of `stretto ca`, as on docs/operations/SECURE.md.
TEST_F(TlsClusterTest, WhoIsRevokedIsRefusedAndNobodyElseNotices) {
  const auto ca = [&](const std::string& command, const Arguments& arguments) {
    Arguments argv = {STRETTO_BINARY_DIR "/stretto", "ca", command, Path("tls")};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const Outcome outcome = RunDaemon(argv);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  const auto files = [&](const std::string& name) -> tls::Files {
    return {Path("tls/ca.crt"), Path("tls/" + name + ".crt"), Path("tls/" + name + ".key")};
  };
  ca("init", {});
  ca("issue", {"--coordinator-host", "localhost", "127.0.0.1", "--worker", "node-a", "node-b",
               "--user", "ada/admin", "bob/submitter/default"});
  Arguments flags = Flags(files("coordinator"));
  flags.insert(flags.end(), {"--tls-crl", Path("tls/ca.crl")});
  StartCoordinator(flags);
  StartWorker("node-a", 2, Flags(files("worker-node-a")));
  StartWorker("node-b", 1, Flags(files("worker-node-b")));
  Become(files("user-bob"));
  ASSERT_EQ(Stretto(Submit({.name = "steady", .steps = 40, .more = kSlow}, {})).code, 0);
  AwaitStep("steady", 2);
  ca("revoke", {"user-bob", "worker-node-b", "--reason", "keyCompromise"});
  EXPECT_TRUE(Eventually([&] { return Stretto({"job", "list"}).code == 1; }));
  EXPECT_THAT(ListJobsError(), HasSubstr("stretto.local/stretto/user/bob/submitter/default): "
                                         "found it revoked by its CA"));
  Become(files("user-ada"));
  EXPECT_TRUE(Eventually([&] {
    return Stretto({"worker", "list"}).out.find("LOST") != std::string::npos;
  }));
  EXPECT_TRUE(Eventually(
      [&] { return worker("node-b").err().find("found it revoked") != std::string::npos; }));
  // A new certificate for the node, and its daemon comes back by itself.
  ca("issue", {"--worker", "node-b"});
  EXPECT_TRUE(Eventually([&] {
    return Stretto({"worker", "list"}).out.find("LOST") == std::string::npos;
  }));
  const Json job = AwaitState("steady", "succeeded");
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_EQ(NumbersOf(Steps("steady")), Range(1, 40));
}

// Users with tokens beside one with a certificate, as on docs/operations/SECURE.md.
TEST_F(TlsClusterTest, AUserWithATokenNeedsNoCertificate) {
  const auto ca = [&](const Arguments& arguments) {
    Arguments argv = {STRETTO_BINARY_DIR "/stretto", "ca"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const Outcome outcome = RunDaemon(argv);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  };
  ca({"init", Path("tls")});
  ca({"issue", Path("tls"), "--coordinator-host", "127.0.0.1", "--worker", "node-a", "--user",
      "ada/admin"});
  ca({"token", "issue", Path("tls"), "--user", "alice/submitter/default", "bob/viewer/speech"});
  const auto files = [&](const std::string& name) -> tls::Files {
    return {Path("tls/ca.crt"), Path("tls/" + name + ".crt"), Path("tls/" + name + ".key")};
  };
  Arguments flags = Flags(files("coordinator"));
  flags.insert(flags.end(), {"--tokens", Path("tls/tokens"), "--page-listen", "127.0.0.1:0"});
  StartCoordinator(flags);
  StartWorker("node-a", 2, Flags(files("worker-node-a")));
  const auto show_token = [&](const std::string& name) {
    Become({.ca = Path("tls/ca.crt")});
    setenv("STRETTO_TOKEN_FILE", Path("tls/" + name + ".token").c_str(), 1);
  };
  show_token("user-alice");
  RunJob({.name = "tiny", .steps = 3});
  EXPECT_THAT(ContentOf(Path("coordinator") + "/audit.log"),
              HasSubstr("user/alice/submitter/default token="));
  show_token("user-bob");
  EXPECT_THAT(Stretto({"job", "list"}).out, Not(HasSubstr("tiny")));
  EXPECT_THAT(Stretto({"job", "cancel", "tiny"}).err,
              HasSubstr("found user bob without a role in project default"));
  // A worker cannot have one.
  const Outcome worker = RunDaemon(WorkerArgv("node-b", 1, {"--tls-ca", Path("tls/ca.crt")}));
  EXPECT_EQ(worker.code, 1);
  EXPECT_THAT(worker.err, HasSubstr("expected --tls-ca, --tls-certificate and --tls-key"));
  show_token("user-alice");
  EXPECT_EQ(Stretto({"job", "list"}).code, 0);
  ca({"token", "revoke", Path("tls"), "user-alice"});
  EXPECT_TRUE(Eventually([&] { return Stretto({"job", "list"}).code == 1; }));
  EXPECT_THAT(ListJobsError(), HasSubstr("of alice: found it revoked"));
  unsetenv("STRETTO_TOKEN_FILE");
  Become(files("user-ada"));
  EXPECT_THAT(Stretto({"job", "list"}).out, HasSubstr("tiny"));
  coordinator().Kill();
  // Without --tokens a client with one is told so.
  StartCoordinator(Flags(files("coordinator")));
  show_token("user-bob");
  EXPECT_THAT(ListJobsError(), HasSubstr("it takes no tokens; start it with --tokens"));
  unsetenv("STRETTO_TOKEN_FILE");
}

TEST_F(TlsClusterTest, ClientsThatDoNotBelongAreToldWhy) {
  StartTlsCoordinator();
  EXPECT_THAT(ListJobsError(),
              HasSubstr("it speaks TLS, and this client came without; give --tls-ca"));

  tls::TestCa other("other CA");
  tls::Files stranger = other.Write(folder_, "stranger-tls", tls::kUserCertificate);
  Become(stranger);
  EXPECT_THAT(ListJobsError(), HasSubstr("its certificate is by CN=test CA and does not lead to "
                                         "--tls-ca " +
                                         stranger.ca));
  // It trusts the coordinator, but its own certificate is still the other CA's.
  ASSERT_TRUE(WriteFileAtomic(stranger.ca, ca_.pem() + other.pem()).ok());
  EXPECT_THAT(ListJobsError(), HasSubstr("it refuses our certificate " + stranger.certificate +
                                         " by CN=other CA; take one of the CA that the "
                                         "coordinator trusts"));

  tls::Certificate expired = tls::kUserCertificate;
  expired.end = -absl::Minutes(1);
  Become(Write("expired-tls", expired));
  EXPECT_THAT(ListJobsError(), HasSubstr("found a certificate that expired at"));

  tls::Files incomplete = Write("user-tls", tls::kUserCertificate);
  incomplete.key.clear();
  Become(incomplete);
  EXPECT_THAT(ListJobsError(), HasSubstr("found only --tls-ca and --tls-certificate"));

  Become(Write("worker-tls", tls::WorkerCertificate()));
  EXPECT_THAT(ListJobsError(), HasSubstr("found role worker (spiffe://test/stretto/worker), "
                                         "expected role user"));

  Become(Write("user-tls", tls::kUserCertificate));
  EXPECT_EQ(Stretto({"job", "list"}).code, 0);
  const Outcome by_name = RunDaemon(
      {STRETTO_BINARY_DIR "/stretto", "--coordinator", "localhost:" + grpc_port_, "job", "list"});
  EXPECT_EQ(by_name.code, 0) << by_name.err;
  const Outcome up = Stretto({"up", "--tls-ca", "x"});
  EXPECT_EQ(up.code, 2);
  EXPECT_THAT(up.err, HasSubstr("`stretto up` makes certificates of its own"));
}

TEST_F(TlsClusterTest, TlsAgainstAPlainCoordinatorIsToldToLeaveItOut) {
  StartCoordinator();
  Become(Write("user-tls", tls::kUserCertificate));
  EXPECT_THAT(ListJobsError(), HasSubstr("it does not speak TLS; leave out --tls-ca"));
}

TEST_F(TlsClusterTest, WorkersNeedTheirOwnCertificate) {
  StartTlsCoordinator();
  const auto refused = [&](const tls::Files& files) {
    const Outcome outcome = RunDaemon(WorkerArgv("node-a", 1, Flags(files)));
    EXPECT_EQ(outcome.code, 1);
    return outcome.err;
  };
  EXPECT_THAT(
      refused(Write("user-tls", tls::kUserCertificate)),
      HasSubstr("found role user (spiffe://test/stretto/user/alice), expected role worker"));
  EXPECT_THAT(refused(Write("b-tls", tls::WorkerCertificate("node-b"))),
              HasSubstr("found the certificate of worker node-b, expected one of --name node-a or "
                        "without a name"));
  tls::Files open = Write("open-tls", tls::WorkerCertificate());
  ASSERT_EQ(chmod(open.key.c_str(), 0644), 0);
  EXPECT_THAT(refused(open), HasSubstr("found mode 0644"));
  // Without TLS, or of another CA, it continues to try and logs the reason.
  LaunchWorker("node-a", 1);
  EXPECT_TRUE(Eventually([&] {
    return worker("node-a").err().find("it speaks TLS, and this client came without") !=
           std::string::npos;
  }));
  // One without a name serves any node.
  StartWorker("node-z", 1, Flags(Write("any-tls", tls::WorkerCertificate())));
}

TEST_F(TlsClusterTest, BadFilesStopTheCoordinator) {
  const tls::Files files = Write("coordinator-tls", tls::kCoordinatorCertificate);
  const auto refused = [&](const tls::Files& bad) {
    const Outcome outcome = RunDaemon(CoordinatorArgv(Flags(bad)));
    EXPECT_EQ(outcome.code, 1);
    return outcome.err;
  };
  tls::Files bad = files;
  bad.certificate = Path("nowhere");
  EXPECT_THAT(refused(bad), HasSubstr("--tls-certificate: open " + bad.certificate));
  EXPECT_THAT(refused(Write("user-tls", tls::kUserCertificate)),
              HasSubstr("expected role coordinator"));
}

TEST_F(TlsClusterTest, FilesAreReplacedWhileAJobTrainsAndNoStepIsLost) {
  StartTlsCluster();
  ASSERT_EQ(Stretto(Submit({.name = "steady", .steps = 40, .more = kSlow}, {})).code, 0);
  AwaitStep("steady", 2);
  const pid_t trainer = TrainerPid("steady", 0);
  // A new CA takes over: first everybody trusts both, then come its certificates.
  tls::TestCa next("next CA");
  const std::vector<std::pair<std::string, tls::Certificate>> all = {
      {"coordinator-tls", tls::kCoordinatorCertificate},
      {"node-a-tls", tls::WorkerCertificate("node-a")},
      {"user-tls", tls::kUserCertificate}};
  for (const auto& [name, certificate] : all) {
    ASSERT_TRUE(WriteFileAtomic(Path(name + ".ca"), ca_.pem() + next.pem()).ok());
  }
  const tls::Files next_user = next.Write(folder_, "next-user-tls", tls::kUserCertificate);
  ASSERT_TRUE(WriteFileAtomic(next_user.ca, ca_.pem() + next.pem()).ok());
  Become(next_user);
  EXPECT_TRUE(Eventually([&] {
    return Stretto({"job", "list"}).code == 0;
  })) << "the coordinator does not trust the new CA";
  for (const auto& [name, certificate] : all) next.Write(folder_, name, certificate);
  // A client that trusts the new CA alone gets through only if the coordinator has its new
  // certificate.
  ASSERT_TRUE(WriteFileAtomic(next_user.ca, next.pem()).ok());
  EXPECT_TRUE(Eventually([&] {
    return Stretto({"job", "list"}).code == 0;
  })) << "the coordinator still serves its old certificate";
  // A restarted coordinator knows the new CA alone: the worker comes back with its new certificate.
  coordinator().Kill();
  StartCoordinator(Flags(
      {Path("coordinator-tls.ca"), Path("coordinator-tls.crt"), Path("coordinator-tls.key")}));
  const Json job = AwaitState("steady", "succeeded");
  EXPECT_EQ(TrainerPid("steady", 0), trainer);
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_EQ(NumbersOf(Steps("steady")), Range(1, 40));
}

TEST_F(TlsClusterTest, HealthAndReadinessOfBothDaemons) {
  StartTlsCluster();
  for (const std::string& port : {metrics_port_, worker_ports_["node-a"]}) {
    EXPECT_THAT(Fetch(port, "/healthz"), HasSubstr("200 OK"));
    EXPECT_THAT(Fetch(port, "/readyz"), HasSubstr("200 OK"));
  }
  coordinator().Kill();
  EXPECT_TRUE(Eventually(
      [&] { return Fetch(worker_ports_["node-a"], "/readyz").find("503") != std::string::npos; }));
  EXPECT_THAT(Fetch(worker_ports_["node-a"], "/readyz"),
              HasSubstr("worker node-a is not registered with the coordinator at 127.0.0.1:"));
  EXPECT_THAT(Fetch(worker_ports_["node-a"], "/healthz"), HasSubstr("200 OK"));
}

}  // namespace
}  // namespace stretto::integration

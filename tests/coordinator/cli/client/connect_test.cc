// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <sys/socket.h>

#include <future>

#include "coordinator/cli/client/client.h"
#include "coordinator/service/refusal_server.h"
#include "proto/base/files.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

// A socket that listens on a free port, which another one may share.
struct Listener {
  Listener() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket.get(), generic, size), 0);
    EXPECT_EQ(::listen(socket.get(), 1), 0);
    EXPECT_EQ(::getsockname(socket.get(), generic, &size), 0);
    port = ntohs(address.sin_port);
  }
  FileDescriptor Accept() const { return FileDescriptor(::accept(socket.get(), nullptr, nullptr)); }

  FileDescriptor socket;
  int port = 0;
};

// The fixture's server starts when a test asks for it.
class ConnectTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    StopServer();
  }
};

TEST_F(ConnectTest, SecondAttemptDecides) {
  jobs_.jobs = {MakeJob("gpt", Job::RUNNING)};
  auto listener = std::make_unique<Listener>();
  Interrupt interrupt;
  Client client(absl::StrCat("127.0.0.1:", listener->port), {}, interrupt);
  v1alpha1::GetJobRequest request;
  request.set_name("jobs/gpt");
  auto answer = std::async(std::launch::async, [&] { return client.GetJob(request); });

  FileDescriptor first = listener->Accept();
  port_ = listener->port;
  StartServer();
  listener.reset();
  first = FileDescriptor();  // the first attempt fails while the coordinator listens

  const auto job = answer.get();
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "jobs/gpt");
}

TEST_F(ConnectTest, NobodyListensIsReportedSoon) {
  Interrupt interrupt;
  Client client(absl::StrCat("127.0.0.1:", port_), {}, interrupt);
  const auto job = client.GetJob({});
  EXPECT_EQ(job.status().code(), absl::StatusCode::kUnavailable) << job.status();
}

TEST_F(ConnectTest, OfSeveralAddressesTheOneThatAnswersIsUsed) {
  jobs_.jobs = {MakeJob("gpt", Job::RUNNING)};
  StartServer();
  Interrupt interrupt;
  Client client(absl::StrCat("127.0.0.1:1,127.0.0.1:", port_), {}, interrupt);
  v1alpha1::GetJobRequest request;
  request.set_name("jobs/gpt");
  for (int i = 0; i < 2; ++i) {
    const auto job = client.GetJob(request);
    EXPECT_TRUE(job.ok()) << job.status();
  }
}

TEST_F(ConnectTest, AStandbyIsPassedOver) {
  jobs_.jobs = {MakeJob("gpt", Job::RUNNING)};
  StartServer();
  auto standby = service::RefusalServer::Start({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(standby.ok()) << standby.status();
  Interrupt interrupt;
  Client client(absl::StrCat("127.0.0.1:", (*standby)->port(), ",127.0.0.1:", port_), {},
                interrupt);
  v1alpha1::GetJobRequest request;
  request.set_name("jobs/gpt");
  const auto job = client.GetJob(request);
  EXPECT_TRUE(job.ok()) << job.status();
}

TEST_F(ConnectTest, StandbysAloneAreTheErrorInTheEnd) {
  auto standby = service::RefusalServer::Start({.listen = "127.0.0.1:0"});
  ASSERT_TRUE(standby.ok()) << standby.status();
  (*standby)->SetReason("standby without a leader: etcd is away", "");
  Interrupt interrupt;
  Client client(absl::StrCat("127.0.0.1:", (*standby)->port(), ",127.0.0.1:1"), {}, interrupt);
  client.set_call_deadline(absl::Seconds(1));
  const auto job = client.GetJob({});
  EXPECT_EQ(job.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(job.status().message(), "standby without a leader: etcd is away");
  EXPECT_EQ(ErrorReason(job.status()), "STANDBY");
}

TEST_F(ConnectTest, InterruptEndsTheWaitForAHandshake) {
  const Listener silent;
  Interrupt interrupt;
  Client client(absl::StrCat("127.0.0.1:", silent.port), {}, interrupt);
  auto answer = std::async(std::launch::async, [&] { return client.GetJob({}); });
  const FileDescriptor unanswered = silent.Accept();
  interrupt.Raise();
  EXPECT_EQ(answer.get().status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace stretto::cli

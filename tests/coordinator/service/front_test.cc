// SPDX-License-Identifier: Apache-2.0
#include "coordinator/front/front.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/coordinator/service/harness.h"
#include "tests/integration/hostile/http2_frames.h"

namespace stretto::service {
namespace {

namespace http2 = integration::http2;
using ::testing::AnyOf;
using ::testing::HasSubstr;

// Connects to 127.0.0.1:`port` from 127.0.0.`from`.
FileDescriptor Dial(int port, int from = 1) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x7f000000u + static_cast<uint32_t>(from));
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

bool IsClosed(const FileDescriptor& fd) {
  char bytes[256];
  ssize_t n = 0;
  while ((n = recv(fd.get(), bytes, sizeof bytes, 0)) > 0) {  // a server's settings
  }
  return n <= 0;
}

// A busy machine may take longer than a probe waits. Of a listener that is deaf no probe ever
// succeeds, and the test ends at its limit of time.
template <class Listener>
void AwaitProbe(Listener& listener) {
  while (!listener.Probe().ok()) absl::SleepFor(absl::Milliseconds(20));
}

class FrontTest : public ::testing::Test {
 protected:
  ~FrontTest() override {
    front_.reset();
    for (const int fd : taken_) close(fd);
  }
  void Open(const FrontLimits& limits) {
    auto front = Front::Listen("127.0.0.1:0", limits);
    ASSERT_TRUE(front.ok()) << front.status();
    front_ = *std::move(front);
    front_->Open([this](int, int connection) {
      const MutexLock lock(mu_);
      taken_.push_back(connection);
      arrived_.NotifyAll();
    });
  }
  void AwaitTaken(size_t count) {
    const MutexLock lock(mu_);
    arrived_.Wait(mu_, [&]() REQUIRES(mu_) { return taken_.size() >= count; });
  }
  void CloseTaken(size_t index) {
    const MutexLock lock(mu_);
    close(taken_[index]);
    taken_.erase(taken_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  Mutex mu_;
  CondVar arrived_;
  std::vector<int> taken_ GUARDED_BY(mu_);
  std::unique_ptr<Front> front_;
};

TEST_F(FrontTest, ConnectionsAreBoundedInAllAndByMachine) {
  Open({.connections = 3, .of_one_machine = 2});
  const FileDescriptor a = Dial(front_->port()), b = Dial(front_->port());
  AwaitTaken(2);
  EXPECT_TRUE(IsClosed(Dial(front_->port())));  // the third of one machine
  EXPECT_EQ(front_->refused_of_one_machine(), 1);
  const FileDescriptor c = Dial(front_->port(), 2);  // of another one
  AwaitTaken(3);
  EXPECT_TRUE(IsClosed(Dial(front_->port(), 3)));  // the fourth in all
  EXPECT_EQ(front_->refused_in_all(), 1);
  EXPECT_EQ(front_->refused_of_one_machine(), 1);
  // Whoever leaves makes room, at once.
  CloseTaken(0);
  const FileDescriptor d = Dial(front_->port(), 3);
  AwaitTaken(3);
  EXPECT_EQ(front_->connections(), 3);
}

// gRPC's own listener was deaf for ever after this.
TEST_F(FrontTest, WithoutADescriptorItWaitsAndGoesOn) {
  Open({.connections = 100, .of_one_machine = 100});
  AwaitProbe(*front_);
  FileDescriptor early(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(front_->port()));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // None beyond the standard ones. The number of the next descriptor would not do as the limit: a
  // thread of an earlier test may close a lower one meanwhile.
  const rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(connect(early.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  absl::SleepFor(absl::Milliseconds(300));  // some tries
  {
    const MutexLock lock(mu_);
    EXPECT_TRUE(taken_.empty());
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  AwaitTaken(1);
  absl::SleepFor(absl::Seconds(1));  // a probe is good for that long
  AwaitProbe(*front_);
}

TEST_F(FrontTest, AProbeNoticesThatNobodyAccepts) {
  auto deaf = *Front::Listen("127.0.0.1:0", {.connections = 1, .of_one_machine = 1});
  const absl::Status status = deaf->Probe();  // nobody has opened it
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("nobody answers at port ", deaf->port())));
  EXPECT_EQ(deaf->Probe(), status);  // at once: within a second nothing else is known
  // A probe takes nobody's place.
  Open({.connections = 1, .of_one_machine = 1});
  const FileDescriptor only = Dial(front_->port());
  AwaitTaken(1);
  AwaitProbe(*front_);
  EXPECT_EQ(front_->refused_in_all(), 0);
}

// As gRPC does, whose thread a connection keeps while it sends.
void ReadToTheEnd(int fd) {
  char bytes[256];
  ssize_t n = 0;
  do {
    n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
  } while (n > 0 || (n < 0 && errno == EAGAIN));
}

TEST_F(FrontTest, WhoSendsWithoutAPauseKeepsNobodyOut) {
  front_ = *Front::Listen("127.0.0.1:0", {.connections = 9, .of_one_machine = 9});
  std::atomic<int> taken = 0;
  front_->Open([&](int, int connection) {
    if (taken++ == 0) ReadToTheEnd(connection);
    close(connection);
  });
  const FileDescriptor busy = Dial(front_->port()), other = Dial(front_->port());
  const std::string much(MemoryGuard::kQuietBytes, 'x');
  ASSERT_EQ(send(busy.get(), much.data(), much.size(), 0), std::ssize(much));
  AwaitProbe(*front_);  // it is not deaf meanwhile
  EXPECT_TRUE(IsClosed(busy));
  EXPECT_TRUE(IsClosed(other));
  EXPECT_EQ(taken, 2);
}

// A handshake on a slow machine.
TEST_F(FrontTest, WhoSendsLittleMayTakeLong) {
  front_ = *Front::Listen("127.0.0.1:0", {.connections = 9, .of_one_machine = 9});
  front_->Open([&](int, int connection) {
    timespec begun = {}, now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
    do {
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (absl::DurationFromTimespec(now) - absl::DurationFromTimespec(begun) <
             5 * Handover::kMost);
    EXPECT_EQ(send(connection, "x", 1, MSG_NOSIGNAL), 1);
    close(connection);
  });
  const FileDescriptor slow = Dial(front_->port());
  char byte = 0;
  EXPECT_EQ(recv(slow.get(), &byte, 1, 0), 1);
}

TEST_F(FrontTest, CloseWaitsForNoPeer) {
  front_ = *Front::Listen("127.0.0.1:0", {.connections = 9, .of_one_machine = 9});
  front_->Open([&](int, int connection) {
    {
      const MutexLock lock(mu_);
      taken_.push_back(connection);
      arrived_.NotifyAll();
    }
    ReadToTheEnd(connection);
  });
  const FileDescriptor busy = Dial(front_->port()), waits = Dial(front_->port());
  AwaitTaken(1);
  front_->Close();
  EXPECT_TRUE(IsClosed(busy));
  EXPECT_TRUE(IsClosed(waits));
}

TEST_F(FrontTest, ListensWhereItIsTold) {
  for (const char* address : {"localhost:0", "0.0.0.0:0", "[::]:0"}) {
    auto front = Front::Listen(address, {.connections = 9, .of_one_machine = 9});
    ASSERT_TRUE(front.ok()) << address << front.status();
    (*front)->Open([](int, int connection) { close(connection); });
    EXPECT_TRUE(IsClosed(Dial((*front)->port()))) << address;
    AwaitProbe(**front);
    const auto again =
        Front::Listen(absl::StrCat("127.0.0.1:", (*front)->port()), {.connections = 9});
    EXPECT_EQ(again.status().code(), absl::StatusCode::kUnavailable) << address;
  }
}

// Through gRPC.
class FrontServiceTest : public ServiceTest {
 protected:
  void RestartWith(const Limits& limits) {
    limits_ = limits;
    Restart();
  }
  static absl::Duration TimeUntilClosed(const FileDescriptor& fd) {
    const absl::Time before = absl::Now();
    EXPECT_TRUE(IsClosed(fd));
    return absl::Now() - before;
  }
};

TEST_F(FrontServiceTest, ConnectionsThatDoNotShakeHandsAreClosed) {
  RestartWith({.handshake = absl::Seconds(1)});
  const FileDescriptor silent = Dial(server_->port()), preface = Dial(server_->port());
  const std::string begin = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  ASSERT_EQ(send(preface.get(), begin.data(), begin.size(), 0), static_cast<ssize_t>(begin.size()));
  EXPECT_LT(TimeUntilClosed(silent), absl::Seconds(5));
  EXPECT_LT(TimeUntilClosed(preface), absl::Seconds(5));
  v1alpha1::Job job;
  EXPECT_EQ(Get("jobs/none", &job).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(FrontServiceTest, IdleConnectionsAreClosed) {
  RestartWith({.idle = absl::Seconds(1)});
  const FileDescriptor idle = Dial(server_->port());
  // The preface and empty settings: a whole handshake, and then nothing.
  const std::string hello =
      std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string("\0\0\0\4\0\0\0\0\0", 9);
  ASSERT_EQ(send(idle.get(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  EXPECT_LT(TimeUntilClosed(idle), absl::Seconds(10));
  // A session is a call, so a worker's connection is not idle.
  FakeWorker worker(*workers_, "w0");
  ASSERT_TRUE(worker.Register().has_registered());
  absl::SleepFor(absl::Seconds(2));
  MustCreate("gpt");
  EXPECT_EQ(worker.Assigned().job_id(), "gpt");
}

// A unary call begins at gRPC, and is a call, before the coordinator learns of it.
TEST_F(FrontServiceTest, ACallWhoseMessageNeverEndsIsClosed) {
  RestartWith({.age = absl::Seconds(1), .age_grace = absl::Seconds(1)});
  FakeWorker worker(*workers_, "w0");
  ASSERT_TRUE(worker.Register().has_registered());
  const FileDescriptor half = Dial(server_->port());
  const std::string hello = absl::StrCat(
      http2::Begin(),
      http2::Frame(http2::kHeaders, http2::kEndHeaders, 1,
                   http2::Call("/stretto.v1alpha1.JobService/GetJob")),
      http2::Frame(http2::kData, 0, 1, http2::Number(0, 1) + http2::Number(1000) + "abc"));
  ASSERT_EQ(send(half.get(), hello.data(), hello.size(), 0), static_cast<ssize_t>(hello.size()));
  EXPECT_LT(TimeUntilClosed(half), absl::Seconds(20));
  // A worker whose session has ended so opens another on a new connection.
  while (worker.Next().message_case() != v1alpha1::CoordinatorMessage::MESSAGE_NOT_SET) {
  }
  EXPECT_EQ(worker.Ended().error_code(), grpc::StatusCode::UNAVAILABLE);
  FakeWorker again(*workers_, "w0");
  EXPECT_TRUE(again.Register().has_registered());
}

// gRPC 1.51 closes the connection of such a call: whether its client still reads why is a race.
TEST_F(FrontServiceTest, HeadersOfACallAreBounded) {
  MustCreate("gpt");
  grpc::ClientContext watching;
  SetDeadline(&watching);
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/gpt");
  const auto watch = jobs_->WatchJob(&watching, request);
  v1alpha1::WatchJobResponse response;
  ASSERT_TRUE(watch->Read(&response));
  const auto get = [&](size_t bytes) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    const auto stub = v1alpha1::JobService::NewStub(
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                  grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    SetDeadline(&context);
    context.AddMetadata("long", std::string(bytes, 'x'));
    v1alpha1::GetJobRequest named;
    named.set_name("jobs/gpt");
    v1alpha1::Job job;
    return stub->GetJob(&context, named, &job).error_code();
  };
  EXPECT_EQ(get(size_t{7} << 10), grpc::StatusCode::OK);
  for (const size_t kib : {9, 12, 15, 20, 100}) {
    EXPECT_THAT(get(kib << 10),
                AnyOf(grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::UNAVAILABLE))
        << kib;
  }
  // Calls of other connections continue.
  v1alpha1::Job job;
  const grpc::Status cancelled = Cancel("jobs/gpt", &job);
  EXPECT_TRUE(cancelled.ok()) << cancelled.error_message();
  while (watch->Read(&response)) {
  }
  const grpc::Status watched = watch->Finish();
  EXPECT_TRUE(watched.ok()) << watched.error_message();
}

// As many connections without a byte as a small limit of descriptors allows, all closed again.
TEST_F(FrontServiceTest, AFloodOfSilentConnectionsDoesNotMakeItDeaf) {
  RestartWith({.most_connections = 50});
  {
    std::vector<FileDescriptor> flood;
    for (int i = 0; i < 200; ++i) flood.push_back(Dial(server_->port()));
    AwaitProbe(*server_);  // it listens, and says so
  }
  v1alpha1::Job job;
  for (grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE;
       code != grpc::StatusCode::NOT_FOUND;) {
    code = Get("jobs/none", &job).error_code();
  }
  EXPECT_THAT(telemetry_->Text(), HasSubstr("stretto_connections_refused_total{limit=\"all\"} "));
}

}  // namespace
}  // namespace stretto::service

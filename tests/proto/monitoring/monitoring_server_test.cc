// SPDX-License-Identifier: Apache-2.0
#include "proto/monitoring/monitoring_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <map>
#include <semaphore>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/base/limits.h"
#include "tests/proto/monitoring/http_get.h"

namespace stretto::monitoring {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A connection that has sent nothing.
FileDescriptor Connected(int port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

class MonitoringTest : public ::testing::Test {
 protected:
  std::unique_ptr<MonitoringServer> Start(const std::string& address = "127.0.0.1:0") {
    auto server = MonitoringServer::Start(address, {.metrics = [] { return "stretto_x 1\n"; },
                                                    .ready = [this] { return ready_.Get(); }});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  Readiness ready_{absl::UnavailableError("starting")};
};

TEST_F(MonitoringTest, MetricsAreTextForPrometheus) {
  const auto server = Start();
  const std::string answer = HttpGet(server->port(), "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 12\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nstretto_x 1\n"));
}

TEST_F(MonitoringTest, HealthDoesNotDependOnReadiness) {
  const auto server = Start();
  EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200 OK\r\n"));
  std::string answer = HttpGet(server->port(), "/readyz");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nstarting\n"));
  ready_.Set(absl::OkStatus());
  answer = HttpGet(server->port(), "/readyz");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(HttpGet(server->port(), "/readyz", "HEAD"), EndsWith("\r\n\r\n"));
}

// A scrape that waits, for a disk under the coordinator's store say, must not take the probes with
// it.
TEST_F(MonitoringTest, ProbesAnswerWhileScrapesWait) {
  std::promise<void> release;
  const std::shared_future<void> released(release.get_future());
  std::counting_semaphore<> waiting(0);
  auto server = MonitoringServer::Start("127.0.0.1:0", {.metrics =
                                                            [&] {
                                                              waiting.release();
                                                              released.wait();
                                                              return std::string("late\n");
                                                            },
                                                        .ready = [] { return absl::OkStatus(); }});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::future<std::string>> scrapes;
  for (int i = 0; i < 4; ++i) {
    scrapes.push_back(
        std::async(std::launch::async, [&] { return HttpGet((*server)->port(), "/metrics"); }));
  }
  for (int i = 0; i < 4; ++i) waiting.acquire();
  EXPECT_THAT(HttpGet((*server)->port(), "/metrics"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(HttpGet((*server)->port(), "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet((*server)->port(), "/readyz"), StartsWith("HTTP/1.1 200"));
  release.set_value();
  for (auto& scrape : scrapes) EXPECT_THAT(scrape.get(), EndsWith("late\n"));
  EXPECT_THAT(HttpGet((*server)->port(), "/metrics"), StartsWith("HTTP/1.1 200"));
}

// Pages of people come last.
TEST_F(MonitoringTest, ProbesAndScrapesAnswerWhilePagesWait) {
  std::promise<void> release;
  const std::shared_future<void> released(release.get_future());
  std::counting_semaphore<> waiting(0);
  auto server = MonitoringServer::Start("127.0.0.1:0", {.metrics = [] { return "stretto_x 1\n"; },
                                                        .ready = [] { return absl::OkStatus(); },
                                                        .page = [&](const Request&) -> Answer {
                                                          waiting.release();
                                                          released.wait();
                                                          return {.body = "late\n"};
                                                        }});
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  constexpr int64_t kTooMany = 8;
  std::vector<FileDescriptor> people;
  std::vector<pollfd> answered;
  const std::string request = "GET / HTTP/1.1\r\n\r\n";
  for (int64_t i = 0; i < limits::kPageRequests.value + kTooMany; ++i) {
    people.push_back(Connected(port));
    answered.push_back({.fd = people.back().get(), .events = POLLIN, .revents = 0});
    ASSERT_EQ(send(people.back().get(), request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
  }
  for (int i = 0; i < 2; ++i) waiting.acquire();  // both threads are at work
  int refused = 0;
  while (refused < kTooMany) refused = poll(answered.data(), answered.size(), 30'000);
  EXPECT_EQ(refused, kTooMany);
  EXPECT_THAT(HttpGet(port, "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet(port, "/readyz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet(port, "/metrics"), StartsWith("HTTP/1.1 200"));
  release.set_value();
  std::map<std::string, int64_t> codes;
  for (const FileDescriptor& person : people) {
    char line[13] = {};
    EXPECT_EQ(recv(person.get(), line, 12, MSG_WAITALL), 12);
    ++codes[line];
  }
  EXPECT_EQ(codes["HTTP/1.1 503"], kTooMany);
  EXPECT_EQ(codes["HTTP/1.1 200"], limits::kPageRequests.value);
  EXPECT_THAT(HttpGet(port, "/"), EndsWith("late\n"));
}

TEST_F(MonitoringTest, APageGetsWhatWasAskedAndSaysHowItIsShown) {
  std::vector<Request> seen;
  auto server = MonitoringServer::Start(
      "127.0.0.1:0", {.metrics = [] { return ""; },
                      .ready = [] { return absl::OkStatus(); },
                      .page = [&](const Request& request) -> Answer {
                        seen.push_back(request);
                        return {
                            .code = 409, .type = "text/x", .body = "b", .headers = "X-Y: z\r\n"};
                      }});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string answer =
      HttpGet((*server)->port(), "/a/%41?b=c&d=?e HTTP/1.0\r\nhOsT:  here:1 \r\nX:");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 409 Conflict\r\nContent-Type: text/x\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nX-Y: z\r\n\r\nb"));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].path, "/a/%41");
  EXPECT_EQ(seen[0].query, "b=c&d=?e");
  EXPECT_EQ(seen[0].host, "here:1");
  EXPECT_THAT(HttpGet((*server)->port(), "/a", "HEAD"), EndsWith("X-Y: z\r\n\r\n"));
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get"}) {
    EXPECT_THAT(HttpGet((*server)->port(), "/a", method), StartsWith("HTTP/1.1 405")) << method;
  }
  EXPECT_EQ(seen.size(), 2u);
}

// 64 of them, a byte a second, once kept all threads: Kubernetes would have restarted the pod.
TEST_F(MonitoringTest, SlowRequestsAreClosedInTimeAndDelayNoProbe) {
  const auto server = Start();
  std::vector<FileDescriptor> slow;
  for (int i = 0; i < 64; ++i) slow.push_back(Connected(server->port()));
  const absl::Time begin = absl::Now();
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: slow-slow-slow-slow";
  size_t closed = 0;
  for (size_t at = 0; closed < slow.size() && at < request.size(); ++at) {
    for (const FileDescriptor& fd : slow) (void)send(fd.get(), &request[at], 1, MSG_NOSIGNAL);
    const absl::Time before = absl::Now();
    EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(HttpGet(server->port(), "/metrics"), StartsWith("HTTP/1.1 200"));
    EXPECT_LT(absl::Now() - before, absl::Seconds(1));
    absl::SleepFor(absl::Milliseconds(500));
    closed = static_cast<size_t>(std::count_if(slow.begin(), slow.end(), [](const auto& fd) {
      char byte = 0;
      return recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
    }));
  }
  EXPECT_EQ(closed, slow.size());
  const absl::Duration took = absl::Now() - begin;
  EXPECT_GE(took, absl::Seconds(limits::kHttpSeconds.value - 1));
}

TEST_F(MonitoringTest, AFloodOfConnectionsDelaysNoProbe) {
  const auto server = Start();
  std::vector<FileDescriptor> flood;
  for (int64_t i = 0; i < 2 * limits::kHttpClients.value; ++i) {
    flood.push_back(Connected(server->port()));
  }
  const absl::Time before = absl::Now();
  EXPECT_THAT(HttpGet(server->port(), "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_LT(absl::Now() - before, absl::Seconds(1));
  char byte = 0;
  EXPECT_EQ(recv(flood[0].get(), &byte, 1, 0), 0);  // the oldest made room
}

// A scraper that asks and does not read holds one of the threads for scrapes, not for longer than
// the deadline, and no probe.
TEST_F(MonitoringTest, AReaderThatDoesNotReadIsGivenUp) {
  const std::string page(64 << 20, 'x');
  auto server = MonitoringServer::Start(
      "127.0.0.1:0", {.metrics = [&] { return page; }, .ready = [] { return absl::OkStatus(); }});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
  std::vector<FileDescriptor> deaf;
  for (int i = 0; i < 4; ++i) {
    deaf.push_back(Connected((*server)->port()));
    ASSERT_EQ(send(deaf.back().get(), request.data(), request.size(), 0),
              static_cast<ssize_t>(request.size()));
  }
  const absl::Time begin = absl::Now();
  std::string answer = "HTTP/1.1 503";
  while (absl::StartsWith(answer, "HTTP/1.1 503")) {
    EXPECT_THAT(HttpGet((*server)->port(), "/readyz"), StartsWith("HTTP/1.1 200"));
    answer = HttpGet((*server)->port(), "/metrics");
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(4 * limits::kHttpSeconds.value));
}

TEST_F(MonitoringTest, RequestsAreBounded) {
  const auto server = Start();
  EXPECT_THAT(HttpGet(server->port(), "/" + std::string(10'000, 'x')), StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(HttpGet(server->port(), "/metrics", "POST"), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(HttpGet(server->port(), "/metrics?x=1"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet(server->port(), "/metrics", "GET  "), StartsWith("HTTP/1.1 400"));
}

TEST_F(MonitoringTest, HealthSaysWhyTheDaemonCannotBeReached) {
  absl::Status healthy;
  auto server = MonitoringServer::Start("127.0.0.1:0", {.metrics = [] { return std::string(); },
                                                        .ready = [] { return absl::OkStatus(); },
                                                        .healthy = [&] { return healthy; }});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(HttpGet((*server)->port(), "/healthz"), StartsWith("HTTP/1.1 200"));
  healthy = absl::UnavailableError("nobody answers at port 7070");
  const std::string answer = HttpGet((*server)->port(), "/healthz");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nnobody answers at port 7070\n"));
}

TEST_F(MonitoringTest, OtherPathsAreNotFound) {
  const auto server = Start();
  for (const char* path : {"/", "/metricsx", "/healthz/x", "/../etc/passwd"}) {
    EXPECT_THAT(HttpGet(server->port(), path), Not(StartsWith("HTTP/1.1 200"))) << path;
  }
}

TEST_F(MonitoringTest, AddressThatCannotBeListenedOnIsNamed) {
  const auto first = Start("localhost:0");
  const std::string taken = absl::StrCat("127.0.0.1:", first->port());
  const Pages none = {[] { return ""; }, [] { return absl::OkStatus(); }};
  EXPECT_EQ(
      MonitoringServer::Start(taken, none).status().message(),
      absl::StrCat("metrics: cannot listen on ", taken, ": in use, or not an address of ours"));
  EXPECT_EQ(MonitoringServer::Start("9090", none).status().message(),
            "metrics: found \"9090\", expected HOST:PORT");
}

TEST_F(MonitoringTest, PortIsFreeOnceItIsGone) {
  auto server = Start("0.0.0.0:0");
  const int port = server->port();
  server.reset();
  EXPECT_EQ(HttpGet(port, "/healthz"), "");
}

}  // namespace
}  // namespace stretto::monitoring

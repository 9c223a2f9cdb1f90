// SPDX-License-Identifier: Apache-2.0
#include "proto/monitoring/monitoring_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <semaphore>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/proto/monitoring/http_get.h"

namespace stretto::monitoring {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

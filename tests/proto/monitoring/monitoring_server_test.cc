#include "proto/monitoring/monitoring_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

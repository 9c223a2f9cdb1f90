// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/hub.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "coordinator/store/job_store.h"

namespace stretto::service {
namespace {

using ::testing::HasSubstr;

class ScriptedPort final : public SessionPort {
 public:
  void Send(v1alpha1::CoordinatorMessage) override {}
  void End(const absl::Status& status) override { ended = status; }
  const std::string& worker() const override { return name; }
  bool Heard() override { return heard; }
  std::optional<absl::Duration> TakeArrival() override {
    return std::exchange(arrival, std::nullopt);
  }

  std::string name;
  bool heard = false;
  std::optional<absl::Duration> arrival;
  absl::Status ended;
};

// A hub without gRPC and without a running loop: the test calls what the loop would.
class HubTest : public ::testing::Test {
 protected:
  HubTest() { hub_.SetDriver(driver_); }

  void Register(ScriptedPort& port, const std::string& name) {
    const int64_t session = hub_.OpenSession(&port);
    coordinator::WorkerRegistered event;
    event.id = name;
    event.incarnation = "i1";
    event.devices = {{.slot = 0, .kind = 1, .description = ""}};
    event.session = session;
    ASSERT_TRUE(hub_.Submit(event).status.ok());
    port.name = name;
  }
  void Pass(absl::Duration duration) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Milliseconds(500)) {
      clock_.Advance(absl::Milliseconds(500));
      hub_.Tick();
    }
  }

  FakeClock clock_;
  telemetry::Telemetry telemetry_;
  Loop loop_;
  std::unique_ptr<telemetry::AuditLog> audit_ = *telemetry::AuditLog::Open("", 0, telemetry_);
  Hub hub_{loop_, clock_, telemetry_, *audit_, {}};
  std::unique_ptr<coordinator::JobStore> store_ = coordinator::NewMemoryStore();
  coordinator::Driver driver_{coordinator::Core(), *store_, hub_};
};

// As if reads or reports kept the loop busy: no event of the worker reaches the core.
TEST_F(HubTest, WorkerThatIsHeardKeepsItsLeaseThoughItsMessagesWaitForTheLoop) {
  ScriptedPort heard, silent;
  Register(heard, "heard");
  Register(silent, "silent");
  heard.heard = true;
  Pass(absl::Minutes(1));
  EXPECT_TRUE(heard.ended.ok());
  EXPECT_TRUE(absl::IsUnavailable(silent.ended)) << silent.ended;
}

TEST_F(HubTest, ReportsThatNobodyWaitsForCostALineASecond) {
  std::ostringstream log;
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  ScriptedPort port;
  Register(port, "w");
  v1alpha1::RankReport report;
  report.set_job_uid("gone");
  report.set_epoch(1);
  report.set_sequence(1);
  report.mutable_step()->set_step(1);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(hub_.OnReport(report, "w", 1).ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(hub_.OnReport(report, "w", 1).ok());
  spdlog::set_default_logger(before);
  const std::vector<std::string> lines = absl::StrSplit(log.str(), "report dropped worker=w: ");
  ASSERT_EQ(lines.size(), 3u) << log.str();
  EXPECT_THAT(lines[2], HasSubstr(" (999 more were left out)"));
}

TEST_F(HubTest, DelayOfAHeartbeatIsFromItsArrivalToTheRenewalOfTheLease) {
  ScriptedPort port;
  Register(port, "w");
  const std::string none = telemetry_.Text();
  EXPECT_THAT(none, HasSubstr("stretto_worker_heartbeat_delay_seconds_count 0\n"));
  port.heard = true;
  port.arrival = clock_.Monotonic();
  Pass(absl::Seconds(2));  // four ticks, of which the first renews for this message
  const std::string one = telemetry_.Text();
  EXPECT_THAT(one, HasSubstr("stretto_worker_heartbeat_delay_seconds_count 1\n"));
  EXPECT_THAT(one, HasSubstr("stretto_worker_heartbeat_delay_seconds_sum 0.5\n"));
}

// Nobody's lease was renewed: a measurement would be a lie.
TEST_F(HubTest, HeartbeatOfALostWorkerIsNotMeasured) {
  ScriptedPort port;
  Register(port, "w");
  Pass(absl::Seconds(12));
  ASSERT_FALSE(port.ended.ok());
  port.arrival = clock_.Monotonic();
  EXPECT_FALSE(hub_.Renew({port.name, 1}, port).ok());
  EXPECT_THAT(telemetry_.Text(), HasSubstr("stretto_worker_heartbeat_delay_seconds_count 0\n"));
}

TEST_F(HubTest, StrangerIsNoWorker) {
  ScriptedPort stranger;
  hub_.OpenSession(&stranger);
  stranger.heard = true;
  Pass(absl::Seconds(1));
  EXPECT_TRUE(driver_.Read([](const coordinator::Core& core) { return core.workers().empty(); }));
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/hub.h"

#include <gtest/gtest.h>

#include "coordinator/store/job_store.h"

namespace stretto::service {
namespace {

class ScriptedPort final : public SessionPort {
 public:
  void Send(v1alpha1::CoordinatorMessage) override {}
  void End(const absl::Status& status) override { ended = status; }
  const std::string& worker() const override { return name; }
  bool Heard() override { return heard; }

  std::string name;
  bool heard = false;
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

TEST_F(HubTest, StrangerIsNoWorker) {
  ScriptedPort stranger;
  hub_.OpenSession(&stranger);
  stranger.heard = true;
  Pass(absl::Seconds(1));
  EXPECT_TRUE(driver_.Read([](const coordinator::Core& core) { return core.workers().empty(); }));
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0

// A worker that breaks its bounds, beside one that trains: the first loses its session with a
// reason, and nobody else anything.

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "proto/base/limits.h"
#include "proto/base/printable.h"
#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using v1alpha1::Assign;
using v1alpha1::Job;
using v1alpha1::WorkerMessage;

class HostileWorkerTest : public ServiceTest {
 protected:
  // A healthy worker trains job "victim" meanwhile.
  void StartVictim() {
    victim_ = std::make_unique<FakeWorker>(*workers_, "victim");
    ASSERT_TRUE(victim_->Register().has_registered());
    MustCreate("victim");
    assign_ = victim_->Assigned();
    for (int rank : {0, 1}) victim_->Prepared(assign_, rank);
    for (int rank : {0, 1}) victim_->AwaitAck(rank, 1);
  }
  // Its session is the same, and its job ends well.
  void ExpectVictimUnharmed() {
    EXPECT_EQ(MustGet("jobs/victim").state(), Job::RUNNING);
    for (int64_t step : {1, 2, 3}) {
      for (int rank : {0, 1}) victim_->Step(assign_, rank, step);
    }
    for (int rank : {0, 1}) victim_->Exit(assign_, rank, 5);
    for (int rank : {0, 1}) victim_->AwaitAck(rank, 5);
    EXPECT_EQ(MustGet("jobs/victim").state(), Job::SUCCEEDED);
  }

  std::unique_ptr<FakeWorker> victim_;
  Assign assign_;
};

TEST_F(HostileWorkerTest, WhatBreaksABoundEndsItsSessionAndNobodyElses) {
  StartVictim();
  const std::vector<std::pair<std::string, std::function<void(WorkerMessage*)>>> cases = {
      {"report.job_uid: found \\\"x\\n2026-11-22",
       [](WorkerMessage* m) {
         m->mutable_report()->set_job_uid("x\n2026-11-22T00:00:00.000Z info  audit caller=root");
       }},
      {"report.exit.reason: ",
       [](WorkerMessage* m) {
         m->mutable_report()->mutable_exit()->set_reason("Evil\x1b]0;pwned\x07");
       }},
      {"report.warning.message: found 3000000 bytes",
       [](WorkerMessage* m) {
         m->mutable_report()->mutable_warning()->set_message(std::string(3'000'000, 'x'));
       }},
      {"positions.ranks: found 4097 entries",
       [](WorkerMessage* m) {
         for (int i = 0; i < 4097; ++i) m->mutable_positions()->add_ranks();
       }},
      {"heartbeat.health.fault: found 9000 bytes",
       [](WorkerMessage* m) {
         m->mutable_heartbeat()->add_health()->set_fault(std::string(9000, 'f'));
       }},
      {"log_data.data: found 65537 bytes",
       [](WorkerMessage* m) { m->mutable_log_data()->set_data(std::string(65537, 'x')); }},
  };
  for (const auto& [place, fill] : cases) {
    FakeWorker hostile(*workers_, "hostile");
    ASSERT_TRUE(hostile.Register().has_registered());
    WorkerMessage message;
    fill(&message);
    hostile.Write(message);
    const grpc::Status status = hostile.Ended();
    EXPECT_EQ(ReasonOf(status), "OUT_OF_BOUNDS");
    EXPECT_TRUE(IsPrintable(status.error_message())) << status.error_message();
    EXPECT_REFUSED(status, StatusCode::INVALID_ARGUMENT, "OUT_OF_BOUNDS",
                   "worker hostile: ", place.substr(0, place.find(' ')));
  }
  ExpectVictimUnharmed();
}

TEST_F(HostileWorkerTest, ARegistrationThatBreaksABoundIsNotStored) {
  StartVictim();
  {
    FakeWorker hostile(*workers_, "hostile");
    for (int slot = 2; slot < 300'000; ++slot) hostile.hello().add_devices()->set_slot(slot);
    hostile.Register();
    EXPECT_REFUSED(hostile.Ended(), StatusCode::INVALID_ARGUMENT, "OUT_OF_BOUNDS",
                   "session: ", "register.devices: found 300000 entries, expected at most 4096");
  }
  {
    FakeWorker hostile(*workers_, "hostile");
    hostile.hello().set_host(std::string(3'000'000, 'h'));
    hostile.Register();
    EXPECT_REFUSED(hostile.Ended(), StatusCode::INVALID_ARGUMENT, "OUT_OF_BOUNDS",
                   "register.host: found 3000000 bytes, expected at most 256");
  }
  {
    FakeWorker hostile(*workers_, "hostile", "i\n1\x1b[2J");
    hostile.Register();
    EXPECT_REFUSED(hostile.Ended(), StatusCode::INVALID_ARGUMENT, "OUT_OF_BOUNDS",
                   "register.incarnation: found \"i\\n1\\x1b[2J\"");
  }
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::ListWorkersResponse response;
  EXPECT_TRUE(cluster_->ListWorkers(&context, {}, &response).ok());
  EXPECT_EQ(response.workers_size(), 1);
  ExpectVictimUnharmed();
}

// It once stood still for 52 s, and every worker was LOST.
TEST_F(HostileWorkerTest, AHugeLedgerStopsNobody) {
  StartVictim();
  MustCreate("own", 1);
  FakeWorker hostile(*workers_, "hostile");
  hostile.Register();
  const Assign own = hostile.Assigned();
  hostile.Prepared(own, 0);
  hostile.AwaitAck(0, 1);
  WorkerMessage message = FakeWorker::Report(own, 0, 2);
  auto* step = message.mutable_report()->mutable_step();
  step->set_step(1);
  for (int i = 0; i < 155'000; ++i) {
    auto* entry = step->mutable_ledger()->add_entries();
    entry->set_phase(absl::StrCat("phase", i));
    entry->set_seconds(1);
  }
  hostile.Write(message);
  const absl::Time before = absl::Now();
  MustGet("jobs/victim");
  EXPECT_LT(absl::Now() - before, absl::Seconds(1));
  EXPECT_REFUSED(hostile.Ended(), StatusCode::INVALID_ARGUMENT, "OUT_OF_BOUNDS",
                 "report.step.ledger.entries: found 155000 entries, expected at most 256");
  ExpectVictimUnharmed();
}

// Within the bounds, but another phase in every step: the sum must not grow.
TEST_F(HostileWorkerTest, SumsOfLedgersAreBounded) {
  FakeWorker hostile(*workers_, "hostile");
  hostile.Register();
  MustCreate("own", 1);
  const Assign own = hostile.Assigned();
  hostile.Prepared(own, 0);
  for (int64_t number = 1; number <= 20; ++number) {
    WorkerMessage message = FakeWorker::Report(own, 0, number + 1);
    auto* step = message.mutable_report()->mutable_step();
    step->set_step(number);
    for (int i = 0; i < 256; ++i) {
      auto* entry = step->mutable_ledger()->add_entries();
      entry->set_phase(absl::StrCat("p", number, "-", i));
      entry->set_seconds(1);
    }
    hostile.Write(message);
  }
  hostile.AwaitAck(0, 21);
  const v1alpha1::Ledger ledger = MustGet("jobs/own").progress().ledger();
  EXPECT_EQ(ledger.entries_size(), limits::kLedgerEntries.value);
  double sum = 0;
  for (const auto& entry : ledger.entries()) sum += entry.seconds();
  EXPECT_DOUBLE_EQ(sum, 20 * 256);  // no second is lost
}

// What people will read later is one line of printable text, wherever it came from.
TEST_F(HostileWorkerTest, ProseIsEscapedWhereItEnters) {
  FakeWorker hostile(*workers_, "hostile");
  hostile.Register();
  MustCreate("own", 1);
  const Assign own = hostile.Assigned();
  hostile.Prepared(own, 0);
  WorkerMessage message = FakeWorker::Report(own, 0, 2);
  auto* exit = message.mutable_report()->mutable_exit();
  exit->set_exit_code(1);
  exit->set_reason("Evil");
  exit->set_message("m\x1b[31mred\nSucceeded  TRUE  Completed");
  exit->set_last_operation("op\u202e");
  hostile.Write(message);
  hostile.AwaitAck(0, 2);
  const Job job = MustGet("jobs/own");
  EXPECT_THAT(job.first_failure().message(),
              ::testing::HasSubstr("m\\x1b[31mred\\nSucceeded  TRUE  Completed"));
  EXPECT_EQ(job.first_failure().last_operation(), "op\\u202e");
  for (const auto& condition : job.conditions()) {
    EXPECT_TRUE(IsPrintable(condition.message())) << condition.message();
  }
}

TEST_F(HostileWorkerTest, RendezvousNamesAreBounded) {
  const auto get = [this](const std::string& uid, const std::string& key) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::StoreGetRequest request;
    request.set_job_uid(uid);
    request.set_key(key);
    v1alpha1::StoreGetResponse response;
    return workers_->StoreGet(&context, request, &response);
  };
  EXPECT_REFUSED(get(std::string(1'000'000, 'u'), "k"), StatusCode::INVALID_ARGUMENT,
                 "INVALID_FIELD", "job_uid: ");
  EXPECT_REFUSED(get("u\nforged", "k"), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "job_uid: ", "\\n");
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  const Job job = MustCreate("gpt");
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::StoreGetRequest request;
  request.set_job_uid(job.uid());
  request.set_epoch(job.epoch());
  request.set_key(std::string(513, 'k'));
  v1alpha1::StoreGetResponse response;
  EXPECT_REFUSED(workers_->StoreGet(&context, request, &response), StatusCode::INVALID_ARGUMENT,
                 "INVALID_ARGUMENT", "key: found 513 bytes");
}

}  // namespace
}  // namespace stretto::service

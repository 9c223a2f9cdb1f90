// SPDX-License-Identifier: Apache-2.0

// What the coordinator's metrics say of jobs, slots, workers and the store.

#include <gmock/gmock.h>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ClusterStateTest : public ServiceTest {
 protected:
  std::string Text() { return telemetry_->Text(); }
  static std::string Seconds(const std::string& job, const std::string& state,
                             const std::string& value) {
    return absl::StrCat("stretto_job_seconds_total{training_job=\"", job, "\",state=\"", state,
                        "\"} ", value, "\n");
  }
};

TEST_F(ClusterStateTest, SecondsOfAJobAreThoseOfItsStatesAndGoSomeMinutesAfterItsEnd) {
  MustCreate("other", 1);
  FakeWorker worker(*workers_, "w0");
  clock_.Advance(absl::Seconds(2));
  worker.Register();
  const v1alpha1::Assign other = worker.Assigned();
  MustCreate("gpt", 1);
  const v1alpha1::Assign gpt = worker.Assigned();
  MustCreate("later", 1);
  clock_.Advance(absl::Seconds(3));
  EXPECT_THAT(Text(), HasSubstr(Seconds("other", "PENDING", "2")));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "PENDING", "0")));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "PREPARING", "3")));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "RUNNING", "0")));
  EXPECT_THAT(Text(), HasSubstr(Seconds("later", "PENDING", "3")));

  worker.Prepared(gpt, 0);
  worker.AwaitAck(0, 1);
  clock_.Advance(absl::Seconds(4));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "PREPARING", "3")));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "RUNNING", "4")));
  for (int64_t step : {1, 2, 3}) worker.Step(gpt, 0, step);
  worker.Exit(gpt, 0, 5);
  EXPECT_EQ(worker.Assigned().job_id(), "later");
  clock_.Advance(absl::Minutes(5) - absl::Nanoseconds(1));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "RUNNING", "4")));
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_THAT(Text(), Not(HasSubstr("training_job=\"gpt\"")));
  EXPECT_THAT(Text(), HasSubstr("training_job=\"later\""));
  EXPECT_THAT(Text(), HasSubstr("stretto_jobs{state=\"SUCCEEDED\"} 1\n"));
}

// Nobody waits for slots meanwhile.
TEST_F(ClusterStateTest, SuspendedSecondsAreNotThoseOfTheQueue) {
  MustCreate("gpt", 1);
  clock_.Advance(absl::Seconds(2));
  v1alpha1::Job job;
  const auto change = [&](auto call, auto request) {
    request.set_name("jobs/gpt");
    grpc::ClientContext context;
    SetDeadline(&context);
    EXPECT_TRUE((jobs_.get()->*call)(&context, request, &job).ok());
  };
  using Stub = v1alpha1::JobService::Stub;
  change(&Stub::SuspendJob, v1alpha1::SuspendJobRequest());
  clock_.Advance(absl::Seconds(30));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "PENDING", "2")));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "SUSPENDED", "30")));
  change(&Stub::ResumeJob, v1alpha1::ResumeJobRequest());
  clock_.Advance(absl::Seconds(5));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "PENDING", "7")));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "SUSPENDED", "30")));
  change(&Stub::CancelJob, v1alpha1::CancelJobRequest());
  clock_.Advance(absl::Seconds(60));
  change(&Stub::ResumeJob, v1alpha1::ResumeJobRequest());
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "PENDING", "7")));
  EXPECT_THAT(Text(), HasSubstr(Seconds("gpt", "SUSPENDED", "90")));
}

TEST_F(ClusterStateTest, TheQueueIsShownByItsOldestJobOfEachKind) {
  const std::string oldest = "stretto_oldest_pending_job_timestamp_seconds{device=";
  EXPECT_THAT(Text(), Not(HasSubstr(oldest)));
  MustCreate("first");
  clock_.Advance(absl::Seconds(5));
  MustCreate("second");
  EXPECT_THAT(Text(), HasSubstr(oldest + "\"cpu\"} 1800000000\n"));
  EXPECT_THAT(Text(), Not(HasSubstr(oldest + "\"cuda\"}")));
}

TEST_F(ClusterStateTest, SlotsOfReadyWorkersAreFreeUsedOrFaulty) {
  FakeWorker worker(*workers_, "w0");
  for (int slot : {2, 3, 4}) {
    auto* device = worker.hello().add_devices();
    device->set_slot(slot);
    device->set_kind(v1alpha1::DEVICE_CUDA);
  }
  worker.hello().mutable_devices(3)->set_fault("Xid 79");
  worker.Register();
  MustCreate("gpt", 1);
  worker.Assigned();
  const auto slots = [](const std::string& device, const std::string& state, int count) {
    return HasSubstr(
        absl::StrCat("stretto_slots{device=\"", device, "\",state=\"", state, "\"} ", count, "\n"));
  };
  EXPECT_THAT(Text(), slots("cpu", "FREE", 1));
  EXPECT_THAT(Text(), slots("cpu", "USED", 1));
  EXPECT_THAT(Text(), slots("cpu", "FAULTY", 0));
  EXPECT_THAT(Text(), slots("cuda", "FREE", 2));
  EXPECT_THAT(Text(), slots("cuda", "USED", 0));
  EXPECT_THAT(Text(), slots("cuda", "FAULTY", 1));
  clock_.Advance(absl::Seconds(11));
  worker.Ended();
  // The job waits for its rank to come back, but in no slot that anybody could have.
  EXPECT_THAT(Text(), slots("cpu", "USED", 0));
  EXPECT_THAT(Text(), slots("cuda", "FREE", 0));
}

TEST_F(ClusterStateTest, AWorkerThatFallsSilentLosesItsLeaseAndIsNamedForAnHour) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  EXPECT_THAT(Text(), HasSubstr("stretto_worker_sessions_total 1\n"));
  EXPECT_THAT(Text(), HasSubstr("stretto_worker_leases_expired_total 0\n"));
  const std::string heartbeat =
      "stretto_worker_last_heartbeat_timestamp_seconds{worker=\"w0\"} 1800000000\n";
  EXPECT_THAT(Text(), HasSubstr(heartbeat));
  clock_.Advance(absl::Seconds(11));
  EXPECT_EQ(worker.Ended().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(Text(), HasSubstr("stretto_worker_leases_expired_total 1\n"));
  EXPECT_THAT(Text(), HasSubstr(heartbeat));
  clock_.Advance(absl::Hours(1));
  EXPECT_THAT(Text(), Not(HasSubstr("worker=\"w0\"")));
  EXPECT_THAT(Text(), HasSubstr("stretto_workers{state=\"LOST\"} 1\n"));
}

TEST_F(ClusterStateTest, ASessionThatIsTakenOverOrBreaksIsNoExpiredLease) {
  FakeWorker first(*workers_, "w0"), second(*workers_, "w0");
  first.Register();
  second.Register();
  EXPECT_EQ(first.Ended().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(Text(), HasSubstr("stretto_worker_sessions_total 2\n"));
  EXPECT_THAT(Text(), HasSubstr("stretto_worker_leases_expired_total 0\n"));
}

TEST_F(ClusterStateTest, CommitsAreTimedAndThoseRefusedCounted) {
  MustCreate("gpt");
  EXPECT_THAT(Text(), HasSubstr("stretto_store_commits_failed_total 0\n"));
  refuse_next_commit_ = true;
  v1alpha1::Job job;
  EXPECT_FALSE(Create(Request("refused"), &job).ok());
  EXPECT_THAT(Text(), HasSubstr("stretto_store_commits_failed_total 1\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("stretto_store_commit_seconds_count 0\n")));
}

}  // namespace
}  // namespace stretto::service

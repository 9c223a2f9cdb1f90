// SPDX-License-Identifier: Apache-2.0

// What users may send and hold, and what happens beyond it.

#include "proto/base/limits.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "coordinator/service/rendezvous.h"
#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

using v1alpha1::CreateJobRequest;
using v1alpha1::Job;

class LimitsTest : public ServiceTest {
 protected:
  void RestartWith(const Limits& limits) {
    limits_ = limits;
    Restart();
  }
  // Until then nothing else of the test runs.
  Job AwaitEnd(const std::string& name) {
    while (true) {
      Job job = MustGet(name);
      if (job.state() == Job::FAILED || job.state() == Job::SUCCEEDED) return job;
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  v1alpha1::Worker OnlyWorker() {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ListWorkersResponse response;
    EXPECT_TRUE(cluster_->ListWorkers(&context, {}, &response).ok());
    EXPECT_EQ(response.workers_size(), 1);
    return response.workers_size() == 1 ? response.workers(0) : v1alpha1::Worker();
  }
};

// A field of number `number` that no build knows.
void AddUnknown(google::protobuf::Message* message, int number, const std::string& value = "x") {
  message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(number, value);
}

TEST_F(LimitsTest, ASpecIsRefusedAboveItsBound) {
  CreateJobRequest request = Request("gpt");
  const auto bytes = static_cast<int64_t>(request.job().spec().ByteSizeLong());
  RestartWith({.max_spec_bytes = bytes});
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  Job job;
  EXPECT_TRUE(Create(request, &job).ok());
  request = Request("longer");
  request.mutable_job()->mutable_spec()->mutable_data()->set_prefix("text/corpus2");
  EXPECT_REFUSED(Create(request, &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "spec: ", absl::StrCat("found ", bytes + 1, " bytes, expected at most ", bytes));
  v1alpha1::Job none;
  EXPECT_EQ(Get("jobs/longer", &none).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(LimitsTest, TheDefaultIsFarBelowAMessage) {
  CreateJobRequest request = Request("gpt");
  request.mutable_job()->mutable_spec()->mutable_data()->set_prefix(std::string(3'900'000, 'x'));
  Job job;
  EXPECT_REFUSED(Create(request, &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "spec: ", "bytes, expected at most 262144, the coordinator's --max-spec-bytes");
  request = Request("gpt");
  request.mutable_job()->mutable_spec()->mutable_schedule()->set_plan(std::string(300'000, 'x'));
  EXPECT_REFUSED(Create(request, &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "spec: ", "bytes, of which schedule.plan has 300000, expected at most 262144");
}

TEST_F(LimitsTest, UnknownFieldsAreRefusedAndNamedWhereTheyAre) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  struct Case {
    std::string place;
    CreateJobRequest request;
  };
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& place) {
    return &cases.emplace_back(Case{place, Request("gpt")}).request;
  };
  AddUnknown(add("request"), 4001);
  AddUnknown(add("job")->mutable_job(), 4002);
  AddUnknown(add("spec")->mutable_job()->mutable_spec(), 4003);
  AddUnknown(add("spec.model")->mutable_job()->mutable_spec()->mutable_model(), 4004);
  AddUnknown(add("spec.data.blend[1]")->mutable_job()->mutable_spec()->mutable_data()->add_blend(),
             4005);
  auto* blend = cases.back().request.mutable_job()->mutable_spec()->mutable_data();
  blend->add_blend()->Swap(blend->mutable_blend(0));
  for (const Case& c : cases) {
    Job job;
    EXPECT_REFUSED(Create(c.request, &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                   absl::StrCat(c.place, ": found field 400"), "knows");
  }
  Job job;
  EXPECT_TRUE(Create(Request("gpt"), &job).ok());  // nothing had the name yet
}

// Thousands of them would be thousands of violations in the answer.
TEST_F(LimitsTest, TheAnswerToManyUnknownFieldsIsShort) {
  CreateJobRequest request = Request("gpt");
  for (int i = 0; i < 1000; ++i) {
    AddUnknown(request.mutable_job()->mutable_spec(), 4000 + i);
    AddUnknown(request.mutable_job()->mutable_spec()->mutable_data()->add_blend(), 9000);
  }
  Job job;
  const grpc::Status status = Create(request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(status.error_details().size(), 4096u);
}

TEST_F(LimitsTest, AnAssignmentThatAWorkerCannotTakeFailsItsJobAlone) {
  RestartWith({.max_message_bytes = 700});
  FakeWorker worker(*workers_, "w0");
  ASSERT_TRUE(worker.Register().has_registered());
  CreateJobRequest poison = Request("poison", 1);
  poison.mutable_job()->mutable_spec()->mutable_data()->set_prefix(std::string(500, 'x'));
  Job job;
  ASSERT_TRUE(Create(poison, &job).ok());
  job = AwaitEnd("jobs/poison");
  EXPECT_EQ(job.state(), Job::FAILED);
  EXPECT_EQ(job.conditions(job.conditions_size() - 1).reason(), "SpecRefused");
  EXPECT_THAT(job.first_failure().message(),
              ::testing::MatchesRegex("the assignment is too long: found [0-9]+ bytes for worker "
                                      "w0, expected at most 700"));
  EXPECT_EQ(OnlyWorker().state(), v1alpha1::Worker::READY);
  // In the same session, and the first message is that of the job that fits.
  MustCreate("fits", 1);
  const v1alpha1::Assign assign = worker.Assigned();
  EXPECT_EQ(assign.job_id(), "fits");
  worker.Prepared(assign, 0);
  for (int64_t step : {1, 2, 3}) worker.Step(assign, 0, step);
  worker.Exit(assign, 0, 5);
  worker.AwaitAck(0, 5);
  EXPECT_EQ(MustGet("jobs/fits").state(), Job::SUCCEEDED);
}

TEST_F(LimitsTest, StreamsAreBoundedAndAnEndedOneMakesRoom) {
  RestartWith({.most_streams = 2});
  MustCreate("gpt");
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/gpt");
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1alpha1::WatchJobResponse>> reader;
    v1alpha1::WatchJobResponse first;
    bool Open(v1alpha1::JobService::Stub& stub, const v1alpha1::WatchJobRequest& request) {
      SetDeadline(&context);
      reader = stub.WatchJob(&context, request);
      return reader->Read(&first);
    }
  };
  Watch one, two, three;
  ASSERT_TRUE(one.Open(*jobs_, request));
  ASSERT_TRUE(two.Open(*jobs_, request));
  EXPECT_FALSE(three.Open(*jobs_, request));
  EXPECT_REFUSED(three.reader->Finish(), StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS",
                 "found 2 open streams", "--max-streams");
  FakeWorker worker(*workers_, "w0");  // sessions of workers are no streams of users
  EXPECT_TRUE(worker.Register().has_registered());
  one.context.TryCancel();
  for (bool open = false; !open;) {
    Watch again;
    open = again.Open(*jobs_, request);
    again.context.TryCancel();
    again.reader->Finish();
  }
  two.context.TryCancel();
  for (Watch* watch : {&one, &two}) watch->reader->Finish();
}

// Clients take answers of 4 MiB.
TEST_F(LimitsTest, APageOfLongJobsEndsEarly) {
  constexpr int64_t kJobs = 50;
  for (int64_t i = 0; i < kJobs; ++i) {
    CreateJobRequest request = Request(absl::StrCat("job-", i));
    v1alpha1::JobSpec& spec = *request.mutable_job()->mutable_spec();
    spec.mutable_data()->clear_prefix();
    for (int part = 0; part < 60; ++part) {
      auto* source = spec.mutable_data()->add_blend();
      source->set_prefix(absl::StrCat(std::string(1000, 'p'), part));
      source->set_weight(1);
    }
    Job job;
    const grpc::Status status = Create(request, &job);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  int64_t seen = 0, pages = 0;
  v1alpha1::ListJobsRequest request;
  request.set_page_size(1000);
  do {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ListJobsResponse page;
    ASSERT_TRUE(jobs_->ListJobs(&context, request, &page).ok());
    const auto bytes = static_cast<int64_t>(page.ByteSizeLong());
    EXPECT_LT(bytes, limits::kPageBytes.value + 2 * limits::kSpecBytes.value);
    seen += page.jobs_size();
    ++pages;
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(seen, kJobs);
  EXPECT_EQ(pages, 2);
}

// A group that holds a group, and so forth, is a field that this build does not know.
TEST_F(LimitsTest, AMessageThatIsNestedTooDeepIsRefused) {
  const auto nested = [](int64_t depth) {
    CreateJobRequest request = Request("gpt");
    const auto levels = static_cast<size_t>(depth);
    // Field 15 as a group: its begin and its end are a byte each.
    return request.SerializeAsString() + std::string(levels, '\x7b') + std::string(levels, '\x7c');
  };
  const auto create = [&](const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    SetDeadline(&context);
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, "/stretto.v1alpha1.JobService/CreateJob", {}, &request, &response,
                   [&done](const grpc::Status& status) { done.set_value(status); });
    return done.get_future().get();
  };
  // Within the bound it is read, and then refused by name.
  EXPECT_EQ(create(nested(limits::kMessageDepth.value)).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  // What cannot be read reaches no handler, and gRPC has one of two codes for it.
  for (const int64_t depth : {limits::kMessageDepth.value + 1, int64_t{1'000'000}}) {
    EXPECT_THAT(create(nested(depth)).error_code(),
                ::testing::AnyOf(grpc::StatusCode::INTERNAL, grpc::StatusCode::UNIMPLEMENTED));
  }
  MustCreate("gpt");  // and everybody else is served
}

// Without TLS a user is a machine. UsersStreamsTest has users with certificates.
TEST_F(LimitsTest, StreamsOfOneUserAreBounded) {
  RestartWith({.most_streams_of_user = 1});
  MustCreate("gpt");
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/gpt");
  v1alpha1::WatchJobResponse response;
  grpc::ClientContext first, second;
  SetDeadline(&first);
  const auto one = jobs_->WatchJob(&first, request);
  ASSERT_TRUE(one->Read(&response));
  SetDeadline(&second);
  const auto two = jobs_->WatchJob(&second, request);
  EXPECT_FALSE(two->Read(&response));
  EXPECT_REFUSED(two->Finish(), StatusCode::RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS",
                 "found 1 open streams of \"127.0.0.1\"", "--max-streams-of-user");
  first.TryCancel();
  one->Finish();
}

TEST_F(LimitsTest, RequestIdsAreBounded) {
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  CreateJobRequest request = Request("gpt");
  request.set_request_id(std::string(129, 'r'));
  Job job;
  EXPECT_REFUSED(Create(request, &job), StatusCode::INVALID_ARGUMENT, "INVALID_FIELD",
                 "request_id: ", "at most 128");
  request.set_request_id(std::string(128, 'r'));
  EXPECT_TRUE(Create(request, &job).ok());
}

// Waits of StoreGet are calls, too, and cost little.
TEST_F(LimitsTest, CallsOfAConnectionAreBounded) {
  const Job waiting = [&] {
    FakeWorker worker(*workers_, "w0");
    worker.Register();
    return MustCreate("gpt");
  }();
  struct Call {
    grpc::ClientContext context;
    v1alpha1::StoreGetRequest request;
    v1alpha1::StoreGetResponse response;
    std::promise<void> done;
  };
  std::vector<std::unique_ptr<Call>> calls;
  for (int64_t i = 0; i < limits::kStreamsPerConnection.value; ++i) {
    Call& call = *calls.emplace_back(std::make_unique<Call>());
    SetDeadline(&call.context);
    call.request.set_job_uid(waiting.uid());
    call.request.set_epoch(waiting.epoch());
    call.request.set_key("never");
    workers_->async()->StoreGet(&call.context, &call.request, &call.response,
                                [&call](const grpc::Status&) { call.done.set_value(); });
  }
  const auto get = [&](v1alpha1::JobService::Stub& stub, absl::Duration within) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(within));
    v1alpha1::GetJobRequest request;
    request.set_name("jobs/gpt");
    Job job;
    return stub.GetJob(&context, request, &job).error_code();
  };
  EXPECT_EQ(get(*jobs_, absl::Milliseconds(300)), grpc::StatusCode::DEADLINE_EXCEEDED);
  // Of another connection it is no matter.
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto other = v1alpha1::JobService::NewStub(grpc::CreateCustomChannel(
      absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials(), own));
  EXPECT_EQ(get(*other, absl::Seconds(30)), grpc::StatusCode::OK);
  for (const auto& call : calls) call->context.TryCancel();
  for (const auto& call : calls) call->done.get_future().wait();
  EXPECT_EQ(get(*jobs_, absl::Seconds(30)), grpc::StatusCode::OK);
}

TEST_F(LimitsTest, AWorkerThatDoesNotReadLosesItsSession) {
  constexpr int kRanks = 128;
  grpc::ChannelArguments small;  // as little as a client may buffer
  small.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  small.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  small.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
  const auto stub = v1alpha1::WorkerService::NewStub(grpc::CreateCustomChannel(
      absl::StrCat("127.0.0.1:", server_->port()), grpc::InsecureChannelCredentials(), small));
  FakeWorker deaf(*stub, "w0");
  for (int slot = 2; slot < kRanks; ++slot) {
    deaf.hello().add_devices()->set_slot(slot);
    deaf.hello().mutable_devices(slot)->set_kind(v1alpha1::DEVICE_CPU);
  }
  deaf.Register();
  CreateJobRequest wide = Request("gpt");
  wide.mutable_job()->mutable_spec()->mutable_parallelism()->set_dp_size(kRanks / 2);
  Job job;
  const grpc::Status created = Create(wide, &job);
  ASSERT_TRUE(created.ok()) << created.error_message();
  // Each asks for the logs of all ranks, and takes that back.
  v1alpha1::StreamJobLogsRequest request;
  request.set_name("jobs/gpt");
  for (int i = 0; i < 150; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
    jobs_->StreamJobLogs(&context, request)->Finish();
  }
  while (deaf.Next().message_case() != v1alpha1::CoordinatorMessage::MESSAGE_NOT_SET) {
  }
  EXPECT_REFUSED(deaf.Ended(), StatusCode::RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED",
                 "worker w0 does not read: 10000 messages");
}

TEST(RendezvousTest, AnAttemptIsBounded) {
  Rendezvous rendezvous;
  const std::string value(limits::kStoreValueBytes.value, 'v');
  int64_t kept = 0;
  absl::Status status;
  while ((status = rendezvous.Set({"uid", 1}, absl::StrCat(kept), value)).ok()) ++kept;
  EXPECT_EQ(kept, limits::kStoreAttemptBytes.value / limits::kStoreValueBytes.value - 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(rendezvous.Set({"uid", 2}, "first", value).ok());  // of another attempt
}

}  // namespace
}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0

// A coordinator with TLS and its users, each with a certificate: what they may do to the jobs of
// each other, and what a worker may do to the jobs of other nodes.

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/service/authorize.h"
#include "coordinator/store/record_codec.h"
#include "tests/coordinator/service/tls_harness.h"

namespace stretto::service {
namespace {

using grpc::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One user with a connection of its own.
struct Client {
  explicit Client(const std::shared_ptr<grpc::Channel>& channel)
      : channel(channel),
        jobs(v1alpha1::JobService::NewStub(channel)),
        cluster(v1alpha1::ClusterService::NewStub(channel)) {}

  grpc::Status Create(const v1alpha1::CreateJobRequest& request) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return jobs->CreateJob(&context, request, &job);
  }
  grpc::Status Cancel(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::CancelJobRequest request;
    request.set_name("jobs/" + id);
    return jobs->CancelJob(&context, request, &job);
  }
  grpc::Status Get(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::GetJobRequest request;
    request.set_name("jobs/" + id);
    return jobs->GetJob(&context, request, &job);
  }
  grpc::Status Delete(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::DeleteJobRequest request;
    request.set_name("jobs/" + id);
    return jobs->DeleteJob(&context, request, &job);
  }
  grpc::Status List(const std::string& project, std::vector<std::string>* names) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ListJobsRequest request;
    request.set_project(project);
    v1alpha1::ListJobsResponse response;
    const grpc::Status status = jobs->ListJobs(&context, request, &response);
    names->clear();
    for (const v1alpha1::Job& one : response.jobs()) names->push_back(one.name());
    return status;
  }
  grpc::Status Cordon(const std::string& worker) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::CordonWorkerRequest request;
    request.set_name("workers/" + worker);
    v1alpha1::Worker cordoned;
    return cluster->CordonWorker(&context, request, &cordoned);
  }
  grpc::Status Forget(const std::string& worker) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::ForgetWorkerRequest request;
    request.set_name("workers/" + worker);
    v1alpha1::Worker forgotten;
    return cluster->ForgetWorker(&context, request, &forgotten);
  }

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1alpha1::JobService::Stub> jobs;
  std::unique_ptr<v1alpha1::ClusterService::Stub> cluster;
  v1alpha1::Job job;  // the last answer
};

v1alpha1::CreateJobRequest JobIn(const std::string& project, const std::string& id) {
  v1alpha1::CreateJobRequest request = TinyJob(id);
  request.mutable_job()->mutable_spec()->mutable_queue()->set_project(project);
  return request;
}

class OwnersTest : public TlsServiceTest {
 protected:
  Client alice_{As("user/alice/submitter/speech")};
  Client bob_{As("user/bob/submitter/text")};
  Client carol_{As("user/carol/submitter/speech")};
  Client viewer_{As("user/vera/viewer")};
  Client project_operator_{As("user/pia/operator/speech")};
  Client operator_{As("user/otto/operator")};
  Client admin_{As("user/ada/admin")};
};

TEST_F(OwnersTest, EveryMethodOfAJobAsksWhoseItIs) {
  const auto* service = v1alpha1::Job::descriptor()->file()->FindServiceByName("JobService");
  std::map<std::string, Client*> callers = {{"alice", &alice_},   {"bob", &bob_},
                                            {"carol", &carol_},   {"vera", &viewer_},
                                            {"otto", &operator_}, {"pia", &project_operator_},
                                            {"ada", &admin_}};
  int number = 0;
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* method = service->method(i);
    const auto* name = method->input_type()->FindFieldByName("name");
    if (name == nullptr) continue;  // CreateJob, ListJobs: tests of their own
    const bool changes = MethodNamed(method->name()).audited;
    for (const auto& [who, caller] : callers) {
      // Ended, so that no stream waits.
      const std::string id = absl::StrCat("gpt-", ++number);
      ASSERT_TRUE(alice_.Create(JobIn("speech", id)).ok());
      ASSERT_TRUE(alice_.Cancel(id).ok());
      const std::unique_ptr<google::protobuf::Message> request(
          google::protobuf::MessageFactory::generated_factory()
              ->GetPrototype(method->input_type())
              ->New());
      request->GetReflection()->SetString(request.get(), name, "jobs/" + id);
      const grpc::Status status =
          CallRaw(caller->channel, MethodNamed(method->name()).path, request->SerializeAsString());
      const bool stranger = who == "bob", reader = who == "carol" || who == "vera";
      const bool refused = stranger || (reader && changes);
      EXPECT_EQ(status.error_code() == StatusCode::PERMISSION_DENIED, refused)
          << who << " " << method->name() << ": " << status.error_message();
      if (!refused) continue;
      EXPECT_EQ(ReasonOf(status), "ROLE_NEEDED");
      ASSERT_TRUE(alice_.Get(id).ok());
      EXPECT_EQ(alice_.job.state(), v1alpha1::Job::CANCELLED) << who << " " << method->name();
      EXPECT_THAT(status.error_message(), HasSubstr(absl::StrCat(method->name(), ": job ", id,
                                                                 " of alice: found user ", who)));
    }
  }
  EXPECT_GE(number, 9 * 7);
}

TEST_F(OwnersTest, AJobBelongsToWhoCreatedIt) {
  ASSERT_TRUE(alice_.Create(JobIn("speech", "gpt")).ok());
  EXPECT_EQ(alice_.job.owner(), "alice");
  ASSERT_TRUE(viewer_.Get("gpt").ok());
  EXPECT_EQ(viewer_.job.owner(), "alice");
  v1alpha1::CreateJobRequest request = JobIn("speech", "other");
  request.mutable_job()->set_owner("bob");  // output only
  request.set_validate_only(true);
  ASSERT_TRUE(carol_.Create(request).ok());
  EXPECT_EQ(carol_.job.owner(), "carol");
}

TEST_F(OwnersTest, RefusalsNameWhatWhoseAndWhichRoleIsNeeded) {
  ASSERT_TRUE(alice_.Create(JobIn("speech", "gpt")).ok());
  EXPECT_REFUSED(bob_.Cancel("gpt"), PERMISSION_DENIED, "ROLE_NEEDED",
                 "CancelJob: job gpt of alice", "user bob", "operator");
  EXPECT_REFUSED(carol_.Cancel("gpt"), PERMISSION_DENIED, "ROLE_NEEDED",
                 "with role submitter in project speech");
  EXPECT_REFUSED(bob_.Get("gpt"), PERMISSION_DENIED, "ROLE_NEEDED", "without a role", "viewer");
  EXPECT_REFUSED(bob_.Create(JobIn("speech", "mine")), PERMISSION_DENIED, "ROLE_NEEDED",
                 "CreateJob: job mine of bob", "submitter");
  EXPECT_REFUSED(viewer_.Create(JobIn("speech", "mine")), PERMISSION_DENIED, "ROLE_NEEDED",
                 "with role viewer in project speech");
  EXPECT_REFUSED(project_operator_.Cordon("node-a"), PERMISSION_DENIED, "ROLE_NEEDED",
                 "CordonWorker: ", "in every project");
  EXPECT_REFUSED(operator_.Forget("node-a"), PERMISSION_DENIED, "ROLE_NEEDED", "admin");
  // What they may do ends for another reason.
  EXPECT_EQ(operator_.Cordon("node-a").error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(admin_.Forget("node-a").error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(bob_.Get("nothing").error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(AuditLog(), testing::ContainsRegex(
                              "caller=spiffe://test/stretto/user/bob/submitter/text peer=[^ ]+ "
                              "method=CancelJob resource=jobs/gpt request_id=- "
                              "result=PERMISSION_DENIED\n"));
  EXPECT_THAT(AuditLog(), HasSubstr("method=CordonWorker resource=workers/node-a request_id=- "
                                    "result=PERMISSION_DENIED\n"));
}

TEST_F(OwnersTest, ListsHaveOnlyWhatTheCallerMayRead) {
  ASSERT_TRUE(alice_.Create(JobIn("speech", "gpt")).ok());
  ASSERT_TRUE(bob_.Create(JobIn("text", "bert")).ok());
  std::vector<std::string> names;
  EXPECT_TRUE(alice_.List("", &names).ok());
  EXPECT_THAT(names, ElementsAre("jobs/gpt"));
  EXPECT_TRUE(bob_.List("", &names).ok());
  EXPECT_THAT(names, ElementsAre("jobs/bert"));
  EXPECT_TRUE(viewer_.List("", &names).ok());
  EXPECT_THAT(names, ElementsAre("jobs/bert", "jobs/gpt"));
  EXPECT_TRUE(viewer_.List("speech", &names).ok());
  EXPECT_THAT(names, ElementsAre("jobs/gpt"));
  EXPECT_REFUSED(bob_.List("speech", &names), PERMISSION_DENIED, "ROLE_NEEDED",
                 "ListJobs: found user bob without a role in project speech");
  EXPECT_THAT(names, IsEmpty());
}

v1alpha1::CreateJobRequest Next(const std::string& project, const std::string& id,
                                const std::string& from) {
  v1alpha1::CreateJobRequest request = JobIn(project, id);
  request.mutable_job()->mutable_spec()->mutable_checkpoint()->set_resume_from(from);
  return request;
}

TEST_F(OwnersTest, AJobContinuesOnlyFromOneThatItsOwnerMayRead) {
  ASSERT_TRUE(alice_.Create(JobIn("speech", "gpt")).ok());
  for (const char* from : {"gpt", "gpt/step-00000100", "gpt/best"}) {
    const grpc::Status status = bob_.Create(Next("text", "thief", from));
    EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED) << from;
  }
  EXPECT_REFUSED(bob_.Create(Next("text", "thief", "gpt")), PERMISSION_DENIED, "ROLE_NEEDED",
                 "CreateJob: checkpoint.resume_from: job gpt of alice", "viewer");
  v1alpha1::CreateJobRequest trial = Next("text", "thief", "gpt");
  trial.set_validate_only(true);
  EXPECT_EQ(bob_.Create(trial).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(carol_.Create(Next("speech", "carols", "gpt")).ok());
  // Weights of a job that was deleted are nobody's any more.
  ASSERT_TRUE(alice_.Cancel("gpt").ok());
  ASSERT_TRUE(alice_.Delete("gpt").ok());
  EXPECT_REFUSED(alice_.Create(Next("speech", "again", "gpt")), PERMISSION_DENIED, "ROLE_NEEDED",
                 "job gpt of an unknown owner", "in every project");
  Client reader(As("user/dan/submitter/speech/viewer"));
  EXPECT_TRUE(reader.Create(Next("speech", "again", "gpt")).ok());
  EXPECT_TRUE(bob_.Create(Next("text", "model", "hf:models/llama")).ok());
}

// What is resumed in another project is shown to all who are in that one.
TEST_F(OwnersTest, CheckpointsGoToAnotherProjectByTheirNameAndAnOperatorOfTheirs) {
  ASSERT_TRUE(alice_.Create(JobIn("speech", "gpt")).ok());
  Client reader(As("user/rita/viewer/speech/submitter/text"));
  EXPECT_REFUSED(reader.Create(Next("text", "a", "gpt")), INVALID_ARGUMENT, "INVALID_FIELD",
                 "spec.checkpoint.resume_from: found \"gpt\", a job of project speech",
                 "gpt@speech");
  EXPECT_REFUSED(reader.Create(Next("text", "a", "gpt@speech")), PERMISSION_DENIED, "ROLE_NEEDED",
                 "CreateJob: checkpoint.resume_from: job gpt of alice: found user rita with role "
                 "viewer in project speech, expected role operator");
  Client owner(As("user/alice/submitter/speech/submitter/text"));
  EXPECT_EQ(owner.Create(Next("text", "a", "gpt@speech")).error_code(),
            StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(bob_.Create(Next("text", "a", "gpt@speech")).error_code(),
            StatusCode::PERMISSION_DENIED);
  // Another project's name helps nobody who may not read the job.
  EXPECT_EQ(bob_.Create(Next("text", "a", "gpt@text")).error_code(), StatusCode::PERMISSION_DENIED);

  Client mover(As("user/max/operator/speech/submitter/text"));
  EXPECT_EQ(mover.Create(Next("text", "a", "gpt/best")).error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(mover.Create(Next("text", "a", "gpt/best@speech")).ok());
  EXPECT_TRUE(mover.Create(Next("text", "b", "gpt@speech")).ok());
  EXPECT_TRUE(carol_.Create(Next("speech", "c", "gpt@speech")).ok());
  EXPECT_TRUE(admin_.Create(Next("text", "d", "gpt@speech")).ok());
  // Whose the checkpoints of a deleted job are, only an operator of all can decide.
  ASSERT_TRUE(alice_.Cancel("gpt").ok());
  ASSERT_TRUE(alice_.Delete("gpt").ok());
  EXPECT_REFUSED(mover.Create(Next("text", "e", "gpt@speech")), PERMISSION_DENIED, "ROLE_NEEDED",
                 "in every project", "expected role operator");
  EXPECT_TRUE(operator_.Create(Next("text", "e", "gpt@speech")).ok());
}

TEST_F(OwnersTest, ACertificateOfAnEarlierReleaseIsOfASubmitterOfTheDefaultProject) {
  Client old(As("user/olga"));
  EXPECT_TRUE(old.Create(TinyJob("gpt")).ok());
  EXPECT_EQ(old.job.owner(), "olga");
  EXPECT_TRUE(old.Cancel("gpt").ok());
  EXPECT_EQ(old.Create(JobIn("speech", "other")).error_code(), StatusCode::PERMISSION_DENIED);
  Client other(As("user/otis"));
  EXPECT_TRUE(other.Get("gpt").ok());
  EXPECT_EQ(other.Delete("gpt").error_code(), StatusCode::PERMISSION_DENIED);
}

// As releases before owners stored a job.
coordinator::JobRecord StoredJob(const std::string& id, int64_t number, const std::string& event) {
  coordinator::JobRecord job;
  job.id = id;
  job.uid = "uid-" + id;
  job.number = number;
  job.spec = TinyJob(id).job().spec().SerializeAsString();
  const absl::Status status = coordinator::DecodeJobBody(
      R"({"stages":[[1,2]],"split_blocks":false,"device_kind":1,"total_steps":3,"priority":0,
          "project":"speech","saves":true,"request_id":"","state":7,"create_time":1000,
          "end_time":2000,"attempt":0,"epoch":0,"restarts":0,"events":[)" +
          event + "]}",
      &job);
  EXPECT_TRUE(status.ok()) << status;
  return job;
}

TEST_F(OwnersTest, AStoredJobWithoutAnOwnerIsOfWhoCreatedItOrOfNobody) {
  const std::string path = folder_ + "/coordinator.db";
  const auto event = [](int number, const std::string& reason, const std::string& caller) {
    return absl::StrCat(R"({"number":)", number, R"(,"time":1000,"state":7,"reason":")", reason,
                        R"(","message":"","count":1,"caller":")", caller, "\"}");
  };
  {
    auto store = coordinator::OpenSqliteStore(path);
    ASSERT_TRUE(store.ok()) << store.status();
    const std::string alice = "spiffe://test/stretto/user/alice";
    ASSERT_TRUE(
        (*store)
            ->Commit({StoredJob("named", 1, event(1, "Created", alice)),
                      // The event of its creation has made room for later ones.
                      StoredJob("long", 2, event(107, "CancelAsked", alice)),
                      StoredJob("plain", 3, event(1, "Created", "")),
                      StoredJob("nobody", 4, event(1, "Created", "spiffe://test/stretto/user"))})
            .ok());
  }
  for (int start = 0; start < 2; ++start) {
    server_.reset();
    auto store = coordinator::OpenSqliteStore(path);
    ASSERT_TRUE(store.ok()) << store.status();
    Start(*std::move(store));
    Client alice(As("user/alice/submitter/speech")), op(As("user/pia/operator/speech"));
    ASSERT_TRUE(alice.Get("named").ok());
    EXPECT_EQ(alice.job.owner(), "alice");
    for (const char* id : {"long", "plain", "nobody"}) {
      ASSERT_TRUE(alice.Get(id).ok()) << id;
      EXPECT_EQ(alice.job.owner(), "") << id;
      EXPECT_EQ(alice.Delete(id).error_code(), StatusCode::PERMISSION_DENIED) << id;
    }
    EXPECT_REFUSED(alice.Delete("long"), PERMISSION_DENIED, "ROLE_NEEDED",
                   "DeleteJob: job long of an unknown owner", "operator");
    if (start == 0) continue;
    EXPECT_TRUE(alice.Delete("named").ok());
    EXPECT_TRUE(op.Delete("long").ok());
  }
}

TEST_F(OwnersTest, AWorkerMeetsOnlyForJobsOfItsNode) {
  const auto node_a = v1alpha1::WorkerService::NewStub(As(tls::WorkerCertificate("node-a")));
  const auto node_b = v1alpha1::WorkerService::NewStub(As(tls::WorkerCertificate("node-b")));
  const auto any = v1alpha1::WorkerService::NewStub(As(tls::WorkerCertificate()));
  FakeWorker worker(*node_a, "node-a");
  ASSERT_TRUE(worker.Register().has_registered());
  ASSERT_TRUE(alice_.Create(JobIn("speech", "gpt")).ok());
  const v1alpha1::Assign assign = worker.Assigned();
  ASSERT_EQ(assign.job_id(), "gpt");
  const auto set = [&](v1alpha1::WorkerService::Stub& stub, int64_t epoch, const char* key) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::StoreSetRequest request;
    request.set_job_uid(assign.job_uid());
    request.set_epoch(epoch);
    request.set_key(key);
    request.set_value("x");
    v1alpha1::StoreSetResponse response;
    return stub.StoreSet(&context, request, &response);
  };
  const auto get = [&](v1alpha1::WorkerService::Stub& stub) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1alpha1::StoreGetRequest request;
    request.set_job_uid(assign.job_uid());
    request.set_epoch(assign.epoch());
    request.set_key("a");
    v1alpha1::StoreGetResponse response;
    return stub.StoreGet(&context, request, &response);
  };
  EXPECT_TRUE(set(*node_a, assign.epoch(), "a").ok());
  EXPECT_TRUE(set(*any, assign.epoch(), "b").ok()) << "a certificate without a name is any node's";
  EXPECT_TRUE(get(*node_a).ok());
  EXPECT_REFUSED(set(*node_b, assign.epoch(), "c"), PERMISSION_DENIED, "NOT_YOUR_JOB",
                 "job \"gpt\"", "worker \"node-b\"");
  EXPECT_EQ(get(*node_b).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(set(*node_a, assign.epoch() - 1, "d").error_code(), StatusCode::ABORTED);
}

// Without TLS there is one user, who may do everything.
TEST_F(ServiceTest, WithoutTlsEveryJobIsOfTheLocalUser) {
  EXPECT_EQ(MustCreate("gpt").owner(), "local");
  v1alpha1::Job job;
  EXPECT_TRUE(Cancel("jobs/gpt", &job).ok());
  EXPECT_TRUE(Delete("jobs/gpt", &job).ok());
  EXPECT_EQ(job.owner(), "local");
}

}  // namespace
}  // namespace stretto::service

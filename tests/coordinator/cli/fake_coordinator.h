// SPDX-License-Identifier: Apache-2.0
#pragma once
// A coordinator made of tests, over real gRPC on a free port, and the fixture that runs commands
// against it.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/app.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "stretto/v1alpha1/job.grpc.pb.h"
#include "tests/golden_messages.h"

namespace stretto::cli {

using v1alpha1::Job;
using WatchWriter = grpc::ServerWriter<v1alpha1::WatchJobResponse>;
using LogWriter = grpc::ServerWriter<v1alpha1::StreamJobLogsResponse>;
using TraceWriter = grpc::ServerWriter<v1alpha1::StreamJobTraceResponse>;

inline grpc::Status Refusal(grpc::StatusCode code, const std::string& message,
                            const std::string& reason,
                            const std::map<std::string, std::string>& fields = {},
                            const std::map<std::string, std::string>& metadata = {}) {
  google::rpc::Status rich;
  rich.set_code(code);
  rich.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  for (const auto& [key, value] : metadata) {
    info.add_metadata()->set_key(key);
    info.mutable_metadata()->rbegin()->set_value(value);
  }
  rich.add_details()->PackFrom(info);
  google::rpc::BadRequest bad;
  for (const auto& [field, description] : fields) {
    bad.add_field_violations()->set_field(field);
    bad.mutable_field_violations()->rbegin()->set_description(description);
  }
  if (!fields.empty()) rich.add_details()->PackFrom(bad);
  return grpc::Status(code, message, rich.SerializeAsString());
}

// Answers with what a test has set; keeps the last request.
class FakeJobs final : public v1alpha1::JobService::Service {
 public:
  std::function<grpc::Status(Job*)> create = [](Job*) { return grpc::Status::OK; };
  std::function<grpc::Status(const v1alpha1::WatchJobRequest&, grpc::ServerContext*, WatchWriter*)>
      watch;
  std::function<grpc::Status(int call, grpc::ServerContext*, LogWriter*)> logs;
  std::function<grpc::Status(const v1alpha1::StreamJobTraceRequest&, TraceWriter*)> trace;
  std::vector<Job> jobs;
  std::vector<v1alpha1::JobEvent> events;     // of job gpt
  v1alpha1::ListJobsRequest list_request;     // the last one
  std::function<void()> listed = [] {};       // called at the begin of each ListJobs
  v1alpha1::CreateJobRequest create_request;  // the last one
  int looks = 0;                              // requests with validate_only
  v1alpha1::ResumeJobRequest resume_request;
  v1alpha1::StreamJobLogsRequest log_request;
  std::vector<int64_t> after_steps;
  int log_calls = 0;
  std::chrono::system_clock::time_point call_deadline, stream_deadline;

 private:
  grpc::Status CreateJob(grpc::ServerContext* context, const v1alpha1::CreateJobRequest* request,
                         Job* job) override {
    create_request = *request;
    looks += request->validate_only() ? 1 : 0;
    call_deadline = context->deadline();
    *job = request->job();
    job->set_name("jobs/" + request->job_id());
    job->set_state(Job::PENDING);
    return create(job);
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1alpha1::GetJobRequest* request,
                      Job* job) override {
    for (const Job& known : jobs) {
      if (known.name() != request->name()) continue;
      *job = known;
      return grpc::Status::OK;
    }
    return Refusal(grpc::NOT_FOUND, request->name() + " does not exist", "JOB_NOT_FOUND", {},
                   {{"job", request->name().substr(5)}});
  }
  // One job a page.
  grpc::Status ListJobs(grpc::ServerContext*, const v1alpha1::ListJobsRequest* request,
                        v1alpha1::ListJobsResponse* response) override {
    listed();
    list_request = *request;
    const size_t index = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    if (index < jobs.size()) *response->add_jobs() = jobs[index];
    if (index + 1 < jobs.size()) response->set_next_page_token(std::to_string(index + 1));
    return grpc::Status::OK;
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1alpha1::CancelJobRequest* request,
                         Job* job) override {
    if (request->name() == "jobs/done") {
      return Refusal(grpc::FAILED_PRECONDITION,
                     "jobs/done: found SUCCEEDED, expected a job that has not ended", "JOB_ENDED");
    }
    job->set_name(request->name());
    job->set_state(Job::CANCELLING);
    return grpc::Status::OK;
  }
  grpc::Status CheckpointJob(grpc::ServerContext*, const v1alpha1::CheckpointJobRequest* request,
                             Job* job) override {
    if (request->name() == "jobs/waiting") {
      return Refusal(grpc::FAILED_PRECONDITION,
                     "jobs/waiting: found PENDING, expected a job that is RUNNING",
                     "JOB_NOT_RUNNING");
    }
    job->set_name(request->name());
    job->set_state(Job::RUNNING);
    job->mutable_progress()->set_steps(2);
    return grpc::Status::OK;
  }
  grpc::Status SuspendJob(grpc::ServerContext*, const v1alpha1::SuspendJobRequest* request,
                          Job* job) override {
    job->set_name(request->name());
    job->set_state(Job::SUSPENDING);
    return grpc::Status::OK;
  }
  grpc::Status ResumeJob(grpc::ServerContext*, const v1alpha1::ResumeJobRequest* request,
                         Job* job) override {
    resume_request = *request;
    job->set_name(request->name());
    job->set_state(Job::PENDING);
    return grpc::Status::OK;
  }
  grpc::Status DeleteJob(grpc::ServerContext*, const v1alpha1::DeleteJobRequest* request,
                         Job* job) override {
    if (request->name() == "jobs/running") {
      return Refusal(grpc::FAILED_PRECONDITION,
                     "jobs/running: found RUNNING, expected a job that has ended", "JOB_NOT_ENDED");
    }
    job->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status ListJobEvents(grpc::ServerContext*, const v1alpha1::ListJobEventsRequest* request,
                             v1alpha1::ListJobEventsResponse* response) override {
    if (request->name() != "jobs/gpt") {
      return Refusal(grpc::NOT_FOUND, request->name() + " does not exist", "JOB_NOT_FOUND");
    }
    for (const v1alpha1::JobEvent& event : events) {
      if (event.number() > request->after_number()) *response->add_events() = event;
    }
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext* context, const v1alpha1::WatchJobRequest* request,
                        WatchWriter* writer) override {
    stream_deadline = context->deadline();
    after_steps.push_back(request->after_step());
    return watch(*request, context, writer);
  }
  grpc::Status StreamJobLogs(grpc::ServerContext* context,
                             const v1alpha1::StreamJobLogsRequest* request,
                             LogWriter* writer) override {
    log_request = *request;
    return logs(log_calls++, context, writer);
  }
  grpc::Status StreamJobTrace(grpc::ServerContext*, const v1alpha1::StreamJobTraceRequest* request,
                              TraceWriter* writer) override {
    return trace(*request, writer);
  }
};

class FakeCluster final : public v1alpha1::ClusterService::Service {
 public:
  // Of the one worker that is there.
  v1alpha1::Worker::State state = v1alpha1::Worker::READY;
  int64_t node_bytes = int64_t{4} << 30;
  std::function<grpc::Status()> list = [] { return grpc::Status::OK; };  // answers ListWorkers

 private:
  grpc::Status ForgetWorker(grpc::ServerContext*, const v1alpha1::ForgetWorkerRequest* request,
                            v1alpha1::Worker* worker) override {
    if (request->name() == "workers/ready") {
      return Refusal(grpc::FAILED_PRECONDITION,
                     "workers/ready: found READY, expected a LOST worker", "WORKER_IN_USE");
    }
    worker->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status ListWorkers(grpc::ServerContext*, const v1alpha1::ListWorkersRequest*,
                           v1alpha1::ListWorkersResponse* response) override {
    *response->add_workers() = One();
    response->mutable_workers(0)->set_cordon(cordon_);
    return list();
  }
  grpc::Status CordonWorker(grpc::ServerContext*, const v1alpha1::CordonWorkerRequest* request,
                            v1alpha1::Worker* worker) override {
    cordon_ = absl::StrCat(request->reason(), request->drain() ? ", drained" : "");
    *worker = One();
    worker->set_cordon(cordon_);
    return grpc::Status::OK;
  }
  grpc::Status UncordonWorker(grpc::ServerContext*, const v1alpha1::UncordonWorkerRequest*,
                              v1alpha1::Worker* worker) override {
    cordon_ = "";
    *worker = One();
    return grpc::Status::OK;
  }
  grpc::Status GetWorker(grpc::ServerContext*, const v1alpha1::GetWorkerRequest* request,
                         v1alpha1::Worker* worker) override {
    if (request->name() != "workers/worker-1") {
      return Refusal(grpc::NOT_FOUND, request->name() + " is unknown", "WORKER_NOT_FOUND", {},
                     {{"worker", request->name().substr(8)}});
    }
    *worker = One();
    return grpc::Status::OK;
  }
  v1alpha1::Worker One() const {
    v1alpha1::Worker worker;
    worker.set_name("workers/worker-1");
    worker.set_state(state);
    worker.set_host("box");
    worker.set_slots(2);
    worker.set_free_slots(1);
    worker.add_jobs("jobs/gpt");
    worker.add_devices()->set_description("cpu core 0");
    worker.mutable_devices(0)->set_kind(v1alpha1::DEVICE_CPU);
    worker.mutable_devices(0)->set_memory_bytes(node_bytes);
    worker.add_devices()->set_description("H200 (GPU 0)");
    worker.mutable_devices(1)->set_slot(1);
    worker.mutable_devices(1)->set_kind(v1alpha1::DEVICE_CUDA);
    worker.mutable_devices(1)->set_fault("Xid 79");
    return worker;
  }

  std::string cordon_;
};

inline Job MakeJob(const std::string& name, Job::State state, int64_t steps = 0) {
  Job job;
  job.set_name("jobs/" + name);
  job.set_state(state);
  job.mutable_spec()->set_steps(3);
  job.mutable_progress()->set_steps(steps);
  job.mutable_progress()->set_total_steps(3);
  return job;
}

inline void Write(WatchWriter* writer, const Job& job) {
  v1alpha1::WatchJobResponse event;
  *event.mutable_job() = job;
  writer->Write(event);
}

inline void WriteStep(WatchWriter* writer, int64_t step, double loss = 2) {
  v1alpha1::WatchJobResponse event;
  event.mutable_step()->set_step(step);
  event.mutable_step()->set_loss(loss);
  event.mutable_step()->set_tokens(100);
  event.mutable_step()->set_wall_seconds(0.5);
  writer->Write(event);
}

inline constexpr char kJobYaml[] =
    "name: gpt\n"
    "parallelism:\n"
    "  tp_size: 3\n"
    "steps: 3\n";

inline std::string WriteScript(const std::string& path, const std::string& body) {
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

// What a planner does that plans one small rank.
inline constexpr char kSmallPlan[] =
    "echo '{\"ranks\":[{\"arenas\":[{\"name\":\"activation\",\"bytes\":1048576}],"
    "\"bytes\":1048576}],\"parameters\":5}'";

// Runs commands against the fakes; `out` and `err` hold what the last one wrote.
class CommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/stretto-cli-XXXXXX";
    dir_ = mkdtemp(pattern);
    golden_.Hide(dir_, "FOLDER");
    file_ = dir_ + "/job.yaml";
    std::ofstream(file_) << kJobYaml;
    WritePlanner(kSmallPlan);
    jobs_.watch = [](const auto&, grpc::ServerContext*, WatchWriter* writer) {
      Write(writer, MakeJob("gpt", Job::RUNNING));
      for (int64_t step = 1; step <= 3; ++step) WriteStep(writer, step);
      Write(writer, MakeJob("gpt", Job::SUCCEEDED, 3));
      return grpc::Status::OK;
    };
    StartServer();
  }
  void TearDown() override {
    if (server_) StopServer();
    std::filesystem::remove_all(dir_);
  }

  void StartServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(&jobs_);
    builder.RegisterService(&cluster_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    golden_.Hide(absl::StrCat("127.0.0.1:", port_), "COORDINATOR");
  }
  void StopServer() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }

  ExitCode Run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    const AppEnvironment environment{
        .terminal = terminal_,
        .interrupt = interrupt_,
        .variable = [this](const std::string& name) { return variables_[name]; },
        .binary_dir = binary_dir_.empty() ? dir_ : binary_dir_,
        .replace_process =
            [this](const std::vector<std::string>& words) {
              replaced_by_ = words;
              return std::string("No such file or directory");
            },
        .give_up = give_up_,
        .retry_interval = absl::Milliseconds(10),
        .refresh = absl::Milliseconds(10)};
    if (variables_["STRETTO_COORDINATOR"].empty()) {
      variables_["STRETTO_COORDINATOR"] = absl::StrCat("127.0.0.1:", port_);
    }
    return RunApp(arguments, environment);
  }
  void WritePlanner(const std::string& body) { WriteScript(dir_ + "/stretto-planner", body); }
  // What the last command wrote to standard error has each of `facts` in it; its words are those of
  // tests/golden/messages/stretto.txt.
  void ExpectMessage(const std::vector<std::string>& facts) { golden_.Add(err(), facts); }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  GoldenMessages golden_{"stretto"};
  std::string dir_, file_;
  std::string binary_dir_;                // of the other programs; empty: dir_
  std::vector<std::string> replaced_by_;  // the program that would have run in its place
  FakeJobs jobs_;
  FakeCluster cluster_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::ostringstream out_, err_;
  Terminal terminal_{.out = out_, .err = err_};
  Interrupt interrupt_;
  std::map<std::string, std::string> variables_;
  absl::Duration give_up_ = absl::Seconds(20);
};

}  // namespace stretto::cli

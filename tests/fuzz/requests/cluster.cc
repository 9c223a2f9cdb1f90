// SPDX-License-Identifier: Apache-2.0

// The state is made once by the events of a life: a worker registers, jobs are created, train and
// end. Its snapshot, with fixed uids in place of drawn ones, is what every call begins with.
//
// A connection within a process has no security that gRPC would name, so whoever calls is nobody: a
// call of a user's method shows a token of an admin. That a job is found so is checked at the
// begin.
//
// A call is over for its client before its last tasks have run, so an interceptor counts the calls
// that the server still has, and a task that is posted afterwards is behind all of theirs.
#include "tests/fuzz/requests/cluster.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/server_interceptor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "coordinator/service/cluster_service.h"
#include "coordinator/service/convert.h"
#include "coordinator/service/create_job.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/worker_service.h"
#include "proto/base/check.h"
#include "proto/base/mutex.h"
#include "proto/tls/callers.h"
#include "proto/tls/tokens.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/proto/tls/token_keys.h"

namespace stretto::fuzz {

using v1alpha1::CoordinatorMessage;

namespace {

// Nothing comes for this long, all tasks run, and nothing comes for this long again: whoever still
// waits waits for somebody else.
constexpr int kPatienceMs = 2;

coordinator::CoreOptions Options() {
  coordinator::CoreOptions options;
  options.longest_round = absl::InfiniteDuration();
  return options;
}

}  // namespace

// The session of "node", without gRPC.
class Cluster::Worker final : public service::SessionPort {
 public:
  explicit Worker(service::Hub& hub) : hub_(hub) {}

  void Register() {
    session_ = hub_.OpenSession(this);
    coordinator::WorkerRegistered event;
    event.id = name_;
    event.incarnation = "first";
    event.host = "host";
    event.build = "fuzz";
    event.session = session_;
    for (const int32_t slot : {0, 1}) {
      event.devices.push_back({.slot = slot, .kind = v1alpha1::DEVICE_CPU, .description = ""});
    }
    const auto job = hub_.FindJob("runs");
    for (const Rank rank : {Rank(0), Rank(1)}) {
      if (!job || job->ranks.empty()) break;
      event.held.push_back({.job_uid = job->uid, .epoch = job->epoch, .rank = rank, .alive = true});
    }
    STRETTO_CHECK(hub_.Submit(event).status.ok());
  }
  // Of both ranks, numbered as they come.
  void Report(const std::string& job, v1alpha1::RankReport report) {
    const auto record = hub_.FindJob(job);
    report.set_job_id(job);
    report.set_job_uid(record->uid);
    report.set_epoch(record->epoch.value());
    report.set_sequence(++sequences_[record->uid]);
    for (const int rank : {0, 1}) {
      report.set_rank(rank);
      STRETTO_CHECK(hub_.OnReport(report, name_, session_).ok());
    }
  }
  void Train(const std::string& job) {
    v1alpha1::RankReport report;
    report.mutable_prepared()->mutable_time()->set_seconds(1'800'000'001);
    Report(job, report);
    for (const int64_t step : {1, 2, 3}) {
      v1alpha1::StepReport& done = *report.mutable_step();
      done.set_step(step);
      done.set_loss(10.0 - static_cast<double>(step));
      done.set_tokens(128);
      done.set_wall_seconds(0.5);
      done.mutable_end_time()->set_seconds(1'800'000'001 + step);
      Report(job, report);
    }
  }

  void Send(CoordinatorMessage message) override {
    if (message.has_inspect()) {
      hub_.loop().Post([this, id = message.inspect().id()] {
        v1alpha1::Inspection found;
        found.set_id(id);
        hub_.OnInspection(found, session_);
      });
    }
    // The first one of a stream names its job; others end it, or let it send more.
    if (!message.has_log_request() || message.log_request().job_uid().empty()) return;
    // Later, as from another machine.
    hub_.loop().Post([this, request = message.log_request()] {
      v1alpha1::LogData data;
      data.set_stream(request.stream());
      data.set_rank(request.rank());
      if (request.has_trace()) {
        data.mutable_record()->mutable_step()->set_step(1);
      } else {
        data.set_data("a line of the log\n");
      }
      data.set_end(true);
      hub_.OnLogData(data, session_);
    });
  }
  void End(const absl::Status&) override {}
  const std::string& worker() const override { return name_; }
  bool Heard() override { return true; }
  std::optional<absl::Duration> TakeArrival() override { return std::nullopt; }

 private:
  service::Hub& hub_;
  const std::string name_ = "node";
  int64_t session_ = 0;
  std::map<std::string, int64_t> sequences_;  // by uid
};

// Counts the calls that the server has not done with.
class Cluster::OpenCalls {
 public:
  void Add(int change) {
    const MutexLock lock(mu_);
    count_ += change;
    changed_.NotifyAll();
  }
  void AwaitNone() {
    const MutexLock lock(mu_);
    changed_.Wait(mu_, [this]() REQUIRES(mu_) { return count_ == 0; });
  }

 private:
  Mutex mu_;
  CondVar changed_;
  int count_ GUARDED_BY(mu_) = 0;
};

// One for each call, from its begin to its end.
class Cluster::Meter final : public grpc::experimental::Interceptor {
 public:
  explicit Meter(OpenCalls& calls) : calls_(calls) { calls_.Add(1); }
  ~Meter() override { calls_.Add(-1); }
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    methods->Proceed();
  }

 private:
  OpenCalls& calls_;
};

class Cluster::Meters final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Meters(OpenCalls& calls) : calls_(calls) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return new Meter(calls_);  // gRPC deletes it
  }

 private:
  OpenCalls& calls_;
};

Cluster::Cluster(bool with_worker)
    : with_worker_(with_worker), calls_(std::make_unique<OpenCalls>()) {
  loop_.Start(absl::Hours(24), [] {});
  Admit();
  Do([this] {
    Live();
    Restore();
  });
  services_.push_back(service::NewJobService(*hub_));
  services_.push_back(service::NewClusterService(*hub_));
  services_.push_back(service::NewWorkerService(*hub_));
  grpc::ServerBuilder builder;
  for (const auto& service : services_) builder.RegisterService(service.get());
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> meters;
  meters.push_back(std::make_unique<Meters>(*calls_));
  builder.experimental().SetInterceptorCreators(std::move(meters));
  server_ = builder.BuildAndStart();
  STRETTO_CHECK(server_ != nullptr);
  channel_ = server_->InProcessChannel({});
  v1alpha1::GetJobRequest request;
  request.set_name("jobs/runs");
  STRETTO_CHECK(Call("/stretto.v1alpha1.JobService/GetJob", {request.SerializeAsString()}).ok());
}

Cluster::~Cluster() {
  server_->Shutdown();
  loop_.Stop();
}

void Cluster::Admit() {
  const tls::TestTokenKey key;
  const std::string keys = tls::TokensText({.keys = {key.key()}, .revoked = {}});
  const std::string path = Folder::Get().Write("tokens", keys);
  callers_ = std::make_shared<const tls::Callers>(nullptr, *tls::Tokens::Open(path), clock_);
  token_ = key.Token("fuzz/admin", clock_.Now(), clock_.Now() + absl::Hours(1));
}

void Cluster::Do(const std::function<void()>& task) {
  std::promise<void> done;
  loop_.Post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

void Cluster::Begin(coordinator::Core core) {
  worker_.reset();
  driver_.reset();
  store_ =
      coordinator::ObserveStore(coordinator::NewMemoryStore(), clock_,
                                [this](absl::Duration, const absl::Status&) { committed_ = true; });
  hub_.emplace(loop_, clock_, telemetry_, *audit_, service::Limits{});
  driver_ = std::make_unique<coordinator::Driver>(std::move(core), *store_, *hub_);
  hub_->SetDriver(*driver_);
  hub_->SetCallers(callers_);
  worker_ = std::make_unique<Worker>(*hub_);
}

void Cluster::Live() {
  Begin(coordinator::Core(Options()));
  worker_->Register();
  for (const char* id : {"done", "runs", "waits"}) {
    v1alpha1::CreateJobRequest request;
    request.set_job_id(id);
    auto& spec = *request.mutable_job()->mutable_spec();
    spec.mutable_model()->set_preset("gpt-tiny");
    spec.mutable_data()->set_prefix("text");
    spec.mutable_parallelism()->set_tp_size(2);
    spec.set_steps(5);
    spec.set_micro_batch_size(2);
    v1alpha1::Job job;
    const service::Call call{
        .method = service::MethodNamed("CreateJob"),
        .caller = {.name = "local", .uri = "", .grants = {{tls::UserRole::kAdmin, ""}}}};
    STRETTO_CHECK(service::CreateJob(*hub_, request, call, &job).ok());
    if (std::string(id) == "waits") break;  // the one before has the slots
    worker_->Train(id);
    if (std::string(id) == "runs") continue;
    v1alpha1::RankReport exit;
    exit.mutable_exit()->set_reason("Completed");
    exit.mutable_exit()->set_step(3);
    worker_->Report(id, exit);
  }
  snapshot_ = *store_->Load();
  int64_t uid = 0;  // those that were drawn differ from run to run
  for (coordinator::JobRecord& job : snapshot_.jobs) job.uid = absl::StrFormat("%032d", ++uid);
  snapshot_.cluster_id = "cluster";
}

void Cluster::Restore() {
  auto core = coordinator::Core::Restore(snapshot_, Options(), clock_.Now());
  STRETTO_CHECK(core.ok());
  Begin(*std::move(core));
  if (!with_worker_) return;
  worker_->Register();
  worker_->Train("runs");
}

grpc::Status Cluster::Call(const std::string& method, const std::vector<std::string>& messages) {
  grpc::Status status;
  {
    grpc::ClientContext context;
    if (service::FindMethod(method)->caller == tls::Role::kUser) {
      context.AddMetadata("authorization", "Bearer " + token_);
    }
    grpc::CompletionQueue queue;
    grpc::GenericStub stub(channel_);
    const auto call = stub.PrepareCall(&context, method, &queue);
    status = Run(*call, queue, messages);
    queue.Shutdown();
  }
  calls_->AwaitNone();
  Do([] {});  // behind the tasks of the call, and once more behind those that they have posted
  Do([&] {
    // What is refused and stores nothing has changed nothing.
    if (committed_ || status.ok()) Restore();
    committed_ = false;
  });
  return status;
}

// Writes and reads at a time, because either side of a session may wait for the other to read.
grpc::Status Cluster::Run(grpc::GenericClientAsyncReaderWriter& call, grpc::CompletionQueue& queue,
                          const std::vector<std::string>& messages) {
  enum : intptr_t { kStarted = 1, kRead, kWritten, kClosed, kFinished };
  const auto tag = [](intptr_t value) { return reinterpret_cast<void*>(value); };
  grpc::ByteBuffer received;
  grpc::Status status;
  size_t next = 0;
  int pending = 1;
  bool is_idle = false;
  const auto write = [&] {
    ++pending;
    if (next == messages.size()) return call.WritesDone(tag(kClosed));
    const grpc::Slice slice(messages[next++]);
    call.Write(grpc::ByteBuffer(&slice, 1), tag(kWritten));
  };
  const auto read = [&] {
    ++pending;
    call.Read(&received, tag(kRead));
  };
  call.StartCall(tag(kStarted));
  while (true) {
    void* got = nullptr;
    bool ok = false;
    const auto soon = std::chrono::system_clock::now() + std::chrono::milliseconds(kPatienceMs);
    if (queue.AsyncNext(&got, &ok, soon) == grpc::CompletionQueue::TIMEOUT) {
      // It waits for news of a job, or for a key: those that wait are told that nothing comes.
      Do([this, is_idle] {
        if (is_idle) hub_->CloseAll(absl::CancelledError("the input ends here"));
      });
      is_idle = true;
      continue;
    }
    is_idle = false;
    --pending;
    if (got == tag(kFinished)) return status;
    if (got == tag(kStarted)) {
      read();
      write();
    } else if (got == tag(kRead) && ok) {
      read();
    } else if (got == tag(kWritten) && ok) {
      write();
    }
    if (pending == 0) {
      ++pending;
      call.Finish(&status, tag(kFinished));
    }
  }
}

}  // namespace stretto::fuzz

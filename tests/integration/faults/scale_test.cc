// SPDX-License-Identifier: Apache-2.0

// Many workers, many readers, many jobs: a real coordinator, with simulated workers beside the real
// one.

#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/clock.h"
#include "proto/tls/credentials.h"
#include "tests/integration/faults/fault_test.h"
#include "tests/integration/faults/fleet.h"
#include "tests/proto/tls/certificates.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

double Now() { return absl::ToDoubleSeconds(Clock::Real().Monotonic()); }

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

class ScaleTest : public FaultTest {
 protected:
  std::string Address() const { return "127.0.0.1:" + grpc_port_; }
  std::shared_ptr<grpc::Channel> Connect() const {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    own.SetMaxReceiveMessageSize(64 << 20);
    return grpc::CreateCustomChannel(Address(), credentials_, own);
  }
  // Binds all threads of a process to core 0.
  void BindToOneCore(const Process& process) {
    const Outcome bound =
        RunDaemon({"/bin/sh", "-c", absl::StrCat("taskset -apc 0 ", process.pid())});
    EXPECT_EQ(bound.code, 0) << bound.err;
  }
  double CpuSeconds() {
    std::ifstream file(absl::StrCat("/proc/", coordinator().pid(), "/stat"));
    std::string word;
    double ticks = 0;
    for (int i = 1; i <= 15 && file >> word; ++i) {
      double number = 0;
      if (i >= 14 && absl::SimpleAtod(word, &number)) ticks += number;
    }
    return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  double ResidentMb() {
    std::ifstream file(absl::StrCat("/proc/", coordinator().pid(), "/status"));
    for (std::string line; std::getline(file, line);) {
      double kib = 0;
      if (std::sscanf(line.c_str(), "VmRSS: %lf kB", &kib) == 1) return kib * 1024 / 1e6;
    }
    return 0;
  }
  // A cluster whose one real worker takes no job, so that all of them wait.
  void StartClusterWhereJobsWait() {
    StartCluster();
    const Outcome cordoned = Stretto({"worker", "cordon", "node-a"});
    ASSERT_EQ(cordoned.code, 0) << cordoned.err;
  }
  // How many heartbeats the coordinator has measured, and how many of them renewed the lease of
  // their worker within kPromptly.
  struct Heartbeats {
    double all = 0, prompt = 0;
  };
  Heartbeats MeasuredHeartbeats() {
    constexpr absl::string_view kName = "\nstretto_worker_heartbeat_delay_seconds_";
    const std::string metrics = Metrics(metrics_port_);
    const auto value = [&](absl::string_view row) {
      const std::string key = absl::StrCat(kName, row, " ");
      const size_t at = metrics.find(key);
      double number = -1;
      if (at != std::string::npos) {
        const size_t begin = at + key.size();
        EXPECT_TRUE(
            absl::SimpleAtod(metrics.substr(begin, metrics.find('\n', begin) - begin), &number));
      }
      EXPECT_GE(number, 0) << key;
      return number;
    };
    return {.all = value("count"), .prompt = value(absl::StrCat("bucket{le=\"", kPromptly, "\"}"))};
  }
  // Of the heartbeats since `before`, 99 in 100 renewed their lease within 1 s: whatever waits in
  // the loop, the next tick does it. Ticks come every 0.5 s, later by the task in progress and by
  // what else uses this machine's cores; a lease is 10 s. The fleet sends `workers` heartbeats
  // every two seconds, or half as many on a busy machine; fewer would be no load.
  static constexpr int kPromptly = 1;  // seconds
  void ExpectPromptHeartbeats(const Heartbeats& before, double workers, double seconds) {
    const Heartbeats now = MeasuredHeartbeats();
    const double all = now.all - before.all, late = all - (now.prompt - before.prompt);
    EXPECT_GE(all, workers * seconds / 4);
    EXPECT_LE(late, 0.01 * all) << "of " << all << " heartbeats";
    NoteFigures(
        absl::StrFormat("of %.0f heartbeats, %.0f took longer than %d s", all, late, kPromptly));
  }
  void ExpectNoLeaseExpired() {
    EXPECT_THAT(Metrics(metrics_port_), HasSubstr("\nstretto_worker_leases_expired_total 0"));
  }
  static grpc::Status Submit(v1alpha1::JobService::Stub& stub, const std::string& id) {
    v1alpha1::CreateJobRequest request;
    request.set_job_id(id);
    auto* spec = request.mutable_job()->mutable_spec();
    spec->mutable_model()->set_preset("gpt-tiny");
    spec->mutable_data()->set_prefix("text");
    spec->mutable_parallelism()->set_tp_size(2);
    spec->set_steps(3);
    spec->set_micro_batch_size(2);
    grpc::ClientContext context;
    service::SetDeadline(&context);
    v1alpha1::Job job;
    return stub.CreateJob(&context, request, &job);
  }
  // Submits jobs one after the other; returns how long each took.
  std::vector<double> SubmitJobs(int first, int count) {
    const auto stub = v1alpha1::JobService::NewStub(Connect());
    std::vector<double> took;
    for (int i = first; i < first + count; ++i) {
      const double start = Now();
      const grpc::Status status = Submit(*stub, absl::StrCat("queued-", i));
      took.push_back(Now() - start);
      EXPECT_TRUE(status.ok()) << status.error_message();
      if (!status.ok()) break;
    }
    return took;
  }

  std::shared_ptr<grpc::ChannelCredentials> credentials_ = grpc::InsecureChannelCredentials();
};

TEST_F(ScaleTest, ReadersAmongAThousandWorkers) {
  Expect({"91 concurrent ListWorkers(page_size=1000) for 30 s with 1,000 workers",
          "0 steps and 0 jobs lost, no lease ends, p99 of heartbeats below 1 s"});
  StartCluster();
  Fleet fleet(Address(), 1000);
  Run("steady", 5);
  Strike("steady", [] {});
  const Heartbeats before = MeasuredHeartbeats();
  std::vector<std::thread> readers;
  std::atomic<int> calls = 0, failed = 0;
  std::atomic<double> longest = 0;
  for (int i = 0; i < 91; ++i) {
    readers.emplace_back([&] {
      const auto stub = v1alpha1::ClusterService::NewStub(Connect());
      while (SinceStrike() < 30) {
        grpc::ClientContext context;
        service::SetDeadline(&context, 60);
        v1alpha1::ListWorkersRequest request;
        request.set_page_size(1000);
        v1alpha1::ListWorkersResponse response;
        const double start = Now();
        failed += !stub->ListWorkers(&context, request, &response).ok();
        const double took = Now() - start;
        for (double seen = longest; took > seen && !longest.compare_exchange_weak(seen, took);) {
        }
        ++calls;
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
  NoteFigures(absl::StrFormat("%d calls, longest %.2f s; late rounds of heartbeats: %d",
                              calls.load(), longest.load(), fleet.late_rounds()));
  EXPECT_EQ(failed, 0);
  ExpectPromptHeartbeats(before, 1000, 30);
  ExpectNoLeaseExpired();
  ExpectUnharmed();
}

TEST_F(ScaleTest, EndedJobsAreBounded) {
  Expect({"150 ended jobs of 2,000 steps, 20 are kept whole",
          "memory and database stop growing; of the oldest a short summary is kept"});
  constexpr int kJobs = 150;
  StartCoordinator({"--keep-jobs", "20"});
  const auto stub = v1alpha1::WorkerService::NewStub(Connect());
  std::optional<service::FakeWorker> fake(std::in_place, *stub, "fake", "first", 3600);
  fake->Register();
  double database[2] = {}, resident[2] = {};
  for (int i = 0; i < kJobs; ++i) {
    ASSERT_EQ(SubmitJobs(i, 1).size(), 1u);
    const v1alpha1::Assign assign = fake->Assigned();
    for (int rank : {0, 1}) fake->Prepared(assign, rank);
    for (int64_t step = 1; step <= 2000; ++step) {
      for (int rank : {0, 1}) fake->Step(assign, rank, step);
    }
    for (int rank : {0, 1}) fake->Exit(assign, rank, 2002);
    if (i == kJobs / 2 - 1 || i == kJobs - 1) {
      database[i / (kJobs - 1)] =
          static_cast<double>(fs::file_size(Path("coordinator/coordinator.db"))) / 1e6;
      resident[i / (kJobs - 1)] = ResidentMb();
    }
  }
  NoteFigures(absl::StrFormat(
      "after 75 jobs: database %.1f MB, memory %.1f MB; after 150: %.1f MB, %.1f MB", database[0],
      resident[0], database[1], resident[1]));
  EXPECT_LE(database[1], 1.3 * database[0]);
  EXPECT_LE(resident[1], 1.3 * resident[0]);
  AwaitState("queued-149", "succeeded");
  const Json oldest = Job("queued-0");
  EXPECT_EQ(oldest["state"], "succeeded");
  EXPECT_EQ(Int(oldest["progress"]["steps"]), 2000);
  EXPECT_THAT(Stretto({"job", "describe", "queued-0"}).out, HasSubstr("\nRetired:"));
  EXPECT_THAT(Stretto({"job", "list", "--limit", "0"}).out, Not(HasSubstr("queued-0 ")));
  EXPECT_THAT(Stretto({"job", "list", "--limit", "0", "--retired"}).out, HasSubstr("queued-0 "));
  const Outcome deleted = Stretto({"job", "delete", "queued-0"});
  EXPECT_EQ(deleted.code, 0) << deleted.err;
  EXPECT_NE(Stretto({"job", "get", "queued-0"}).code, 0);
  // By age: less than a second, at the next tick of a coordinator that has just started.
  EXPECT_THAT(Stretto({"job", "describe", "queued-149"}).out, Not(HasSubstr("\nRetired:")));
  fake.reset();
  coordinator().Kill();
  StartCoordinator({"--keep-jobs-days", "0.00001"});
  AwaitJob("queued-149", "retired", [](const Json& job) { return job.contains("retire_time"); });
  EXPECT_EQ(Stretto({"job", "list"}).out, "");
}

TEST_F(ScaleTest, TenThousandJobsWait) {
  Expect({"10,000 queued jobs, one worker", "submit p99 below 20 ms, idle below 1 % of a core"});
  StartClusterWhereJobsWait();
  SubmitJobs(0, 10000);
  const std::vector<double> took = SubmitJobs(10000, 1000);
  const double cpu = CpuSeconds(), start = Now();
  std::this_thread::sleep_for(std::chrono::seconds(10));  // idle: the time that is measured
  const double idle = 100 * (CpuSeconds() - cpu) / (Now() - start);
  const double p99 = 1e3 * Percentile(took, 0.99);
  NoteFigures(
      absl::StrFormat("submit p50 %.1f ms, p99 %.1f ms; idle %.2f %% of a core; memory %.0f MB",
                      1e3 * Percentile(took, 0.5), p99, idle, ResidentMb()));
  EXPECT_LT(p99, 20);
  EXPECT_LT(idle, 1);
}

TEST_F(ScaleTest, TenThousandWorkersAndJobsOnOneCore) {
  Expect(
      {"10,000 workers send heartbeats and 10,000 jobs wait, coordinator on one core",
       "submit p99 below 20 ms, memory below 500 MB, no lease ends, p99 of heartbeats below 1 s"});
  StartClusterWhereJobsWait();
  BindToOneCore(coordinator());
  Fleet fleet(Address(), 10000);
  SubmitJobs(0, 10000);
  const Heartbeats before = MeasuredHeartbeats();
  const double cpu = CpuSeconds(), start = Now();
  const std::vector<double> took = SubmitJobs(10000, 1000);
  const double busy = 100 * (CpuSeconds() - cpu) / (Now() - start);
  // At least two rounds of heartbeats, if the jobs took no longer than one.
  while (Now() - start < 6) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double seconds = Now() - start;
  const double p99 = 1e3 * Percentile(took, 0.99);
  NoteFigures(absl::StrFormat(
      "submit p50 %.1f ms, p99 %.1f ms; %.0f %% of a core; memory %.0f MB; late rounds: %d",
      1e3 * Percentile(took, 0.5), p99, busy, ResidentMb(), fleet.late_rounds()));
  EXPECT_LT(p99, 20);
  EXPECT_LT(ResidentMb(), 500);
  ExpectPromptHeartbeats(before, 10000, seconds);
  ExpectNoLeaseExpired();
}

// Of the throughput of a coordinator that takes submissions and has 2,000 workers.
constexpr double kHalfOfWhatTlsMayCost = 0.025;

// What a call costs a coordinator that eight clients keep busy.
class SecureScaleTest : public ScaleTest {
 protected:
  using Call = std::function<grpc::Status(v1alpha1::JobService::Stub&, const std::string& id)>;
  // Starts the coordinator anew, on core 0. `client` is the certificate of those who call it.
  void Restart(bool secure, const tls::Certificate& client) {
    if (started_) coordinator().Kill();
    started_ = true;
    const tls::Files own = ca_.Write(folder_, "coordinator-tls", tls::kCoordinatorCertificate);
    const tls::Files theirs = ca_.Write(folder_, "client-tls", client);
    StartCoordinator(secure ? Arguments{"--tls-ca", own.ca, "--tls-certificate", own.certificate,
                                        "--tls-key", own.key}
                            : Arguments{});
    credentials_ = secure ? tls::ChannelCredentials(theirs) : grpc::InsecureChannelCredentials();
    BindToOneCore(coordinator());
  }
  // Returns the coordinator's seconds of CPU for each of the calls of 1 s. The clients leave its
  // core alone.
  double CostOf(int clients_at_once, const Call& call) {
    std::atomic<int> calls = 0, failed = 0;
    std::atomic<bool> stopping = false;
    std::vector<std::thread> clients;
    const std::string ids = absl::StrCat("round-", ++rounds_, "-");
    for (int i = 0; i < clients_at_once; ++i) {
      clients.emplace_back([&, i] {
        cpu_set_t others;
        CPU_ZERO(&others);
        for (int core = 1; core < CPU_SETSIZE; ++core) CPU_SET(core, &others);
        sched_setaffinity(0, sizeof others, &others);
        const auto stub = v1alpha1::JobService::NewStub(Connect());
        for (int n = 0; !stopping; ++n) {
          failed += !call(*stub, absl::StrCat(ids, i, "-", n)).ok();
          ++calls;
        }
      });
    }
    while (calls < 200) Pause();  // connections have shaken hands
    const double cpu = CpuSeconds();
    const int before = calls;
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the time that is measured
    const double cost = (CpuSeconds() - cpu) / (calls - before);
    stopping = true;
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(failed, 0);
    return cost;
  }

 private:
  tls::TestCa ca_;
  bool started_ = false;
  int rounds_ = 0;
};

TEST_F(SecureScaleTest, TlsAndAuthorisationCostLittle) {
  Expect({"clients that never pause, with and without certificates, coordinator on one core",
          "they add to a call at most 2.5 % of the CPU time of a submission"});
  const Call submit = Submit;
  const Call get = [](v1alpha1::JobService::Stub& stub, const std::string&) {
    grpc::ClientContext context;
    service::SetDeadline(&context);
    v1alpha1::GetJobRequest request;
    request.set_name("jobs/queued-0");
    v1alpha1::Job job;
    return stub.GetJob(&context, request, &job);
  };
  std::vector<double> submits[2], gets[2];
  // Each is the first in turn, because submissions cost more as jobs become more.
  for (int round = 0; round < 10; ++round) {
    for (const bool second : {false, true}) {
      const bool secure = second != (round % 2 == 1);
      Restart(secure, tls::kUserCertificate);
      if (submits[0].empty()) SubmitJobs(0, 1);
      submits[secure].push_back(CostOf(1, submit));
      gets[secure].push_back(CostOf(8, get));
    }
  }
  const auto median = [](const std::vector<double>& costs) { return 1e6 * Percentile(costs, 0.5); };
  NoteFigures(absl::StrFormat(
      "CPU time of CreateJob %.0f us, secure %.0f us; of GetJob %.0f us, secure %.0f us",
      median(submits[0]), median(submits[1]), median(gets[0]), median(gets[1])));
  // They cost the same whatever a call does. Of a submission, whose disk makes its time vary by
  // more than that, they cannot be seen. Half of the 5 % is for heartbeats.
  EXPECT_LE(median(gets[1]) - median(gets[0]), kHalfOfWhatTlsMayCost * median(submits[0]));
}

// Sessions last, so that each heartbeat is encrypted and none is authorised.
TEST_F(SecureScaleTest, HeartbeatsCostLittleMore) {
  Expect({"2,000 workers with a connection each, with and without certificates, one core",
          "no lease ends; encryption takes at most 2.5 % of the core"});
  constexpr int kWorkers = 2000, kSeconds = 20;
  double beats[2] = {}, used[2] = {}, resident[2] = {};
  for (const bool secure : {false, true, true, false}) {
    Restart(secure, tls::WorkerCertificate());
    const Heartbeats begun = MeasuredHeartbeats();
    Fleet fleet(Address(), kWorkers, {.sessions_each = 1, .credentials = credentials_});
    while (MeasuredHeartbeats().all - begun.all < 2 * kWorkers) Pause();  // all have shaken hands
    const Heartbeats before = MeasuredHeartbeats();
    const double cpu = CpuSeconds();
    std::this_thread::sleep_for(std::chrono::seconds(kSeconds));  // the time that is measured
    used[secure] += CpuSeconds() - cpu;
    ExpectPromptHeartbeats(before, kWorkers, kSeconds);
    beats[secure] += static_cast<double>(MeasuredHeartbeats().all - before.all);
    resident[secure] = ResidentMb();
    ExpectNoLeaseExpired();
  }
  const double plain = used[0] / beats[0], encrypted = used[1] / beats[1];
  NoteFigures(
      absl::StrFormat("CPU time of a heartbeat %.0f us, secure %.0f us; memory %.0f MB, %.0f MB",
                      1e6 * plain, 1e6 * encrypted, resident[0], resident[1]));
  EXPECT_LE((encrypted - plain) * beats[1] / (2 * kSeconds), kHalfOfWhatTlsMayCost);
}

}  // namespace
}  // namespace stretto::integration

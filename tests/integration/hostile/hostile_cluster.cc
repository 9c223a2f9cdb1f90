// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/hostile/hostile_cluster.h"

#include <chrono>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "proto/base/files.h"
#include "proto/tls/credentials.h"

namespace stretto::integration {
namespace {

using JobMessage = stretto::v1alpha1::Job;  // Job is a method of a cluster

// Beyond what the coordinator had at first. Its allocator keeps some of what it once needed.
constexpr int64_t kMoreBytes = int64_t{128} << 20;

std::unique_ptr<HostileCluster> current;

void End() {
  if (current != nullptr) current->ExpectWhole();
  current.reset();
}

class EndOfTheProcess final : public testing::Environment {
  void TearDown() override { End(); }
};
[[maybe_unused]] const auto* const kEnd = testing::AddGlobalTestEnvironment(new EndOfTheProcess);

Arguments Flags(const tls::Files& files) {
  return {"--tls-ca", files.ca, "--tls-certificate", files.certificate, "--tls-key", files.key};
}

}  // namespace

HostileCluster& HostileCluster::Get(bool tls) {
  if (current != nullptr && current->tls_ != tls) End();
  if (current == nullptr) current.reset(new HostileCluster(tls));
  return *current;
}

void HostileCluster::EndHarmed() {
  current->TearDown();  // shows its logs
  current.reset();
}

HostileCluster::HostileCluster(bool tls) : tls_(tls) {
  if (tls) {
    user_ = Write("user-tls", tls::kUserCertificate);
    Arguments flags = Flags(Write("coordinator-tls", tls::kCoordinatorCertificate));
    EXPECT_TRUE(WriteFileAtomic(Path("ca.crl"), ca_.RevocationList({kRevokedSerial})).ok());
    flags.insert(flags.end(), {"--tls-crl", Path("ca.crl"), "--page-listen", "127.0.0.1:0"});
    StartCoordinator(flags);
    StartWorker("node-a", 2, Flags(Write("node-a-tls", tls::WorkerCertificate("node-a"))));
  } else {
    StartCoordinator();
    StartWorker("node-a", 2);
  }
  EXPECT_EQ(Run(Submit({.name = "kept", .steps = 5}, {"--wait"})).code, 0);
  EXPECT_EQ(Run(Submit({.name = "victim", .steps = 100000, .more = kSlow}, {})).code, 0);
  AwaitGrpc("victim", JobMessage::RUNNING, 2);
  uid_ = GetJob("victim").uid();
  bytes_before_ = CoordinatorBytes();
}

Outcome HostileCluster::Run(Arguments arguments) {
  if (tls_) {
    for (const std::string& flag : Flags(user_)) arguments.push_back(flag);
  }
  return Stretto(arguments);
}

std::shared_ptr<grpc::Channel> HostileCluster::Channel() { return Channel(user_); }

std::shared_ptr<grpc::Channel> HostileCluster::Channel(const tls::Files& files) {
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      "127.0.0.1:" + grpc_port_,
      files.empty() ? grpc::InsecureChannelCredentials() : tls::ChannelCredentials(files), own);
}

JobMessage HostileCluster::GetJob(const std::string& name) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1alpha1::GetJobRequest request;
  request.set_name("jobs/" + name);
  JobMessage job;
  const grpc::Status status =
      v1alpha1::JobService::NewStub(Channel())->GetJob(&context, request, &job);
  EXPECT_TRUE(status.ok()) << "job " << name << ": " << status.error_message();
  return job;
}

void HostileCluster::AwaitGrpc(const std::string& job, JobMessage::State state, int64_t steps) {
  JobMessage found;
  EXPECT_TRUE(Eventually([&] {
    found = GetJob(job);
    return found.has_end_time() || found.progress().steps() >= steps;
  }));
  EXPECT_EQ(found.state(), state) << found.ShortDebugString();
}

int64_t HostileCluster::CoordinatorBytes() {
  const std::string status = ContentOf(absl::StrCat("/proc/", coordinator().pid(), "/status"));
  const size_t at = status.find("VmRSS:");
  long long kib = 0;
  EXPECT_TRUE(at != std::string::npos &&
              std::sscanf(status.c_str() + at, "VmRSS: %lld kB", &kib) == 1)
      << status;
  return int64_t{kib} << 10;
}

std::string HostileCluster::NewLog() { return coordinator().err().substr(log_); }

std::string HostileCluster::ExpectUnharmed() {
  if (!coordinator().running()) {
    ADD_FAILURE() << "the coordinator has ended";
    return "the coordinator has ended";
  }
  const absl::Time before = absl::Now();
  const JobMessage kept = GetJob("kept");
  const absl::Duration took = absl::Now() - before;
  EXPECT_LT(took, absl::Seconds(1)) << "a healthy client waited";
  EXPECT_EQ(kept.state(), JobMessage::SUCCEEDED);
  EXPECT_EQ(kept.progress().steps(), 5);
  for (const std::string& job : acknowledged_) GetJob(job);
  EXPECT_TRUE(absl::StartsWith(Fetch(metrics_port_, "/healthz"), "HTTP/1.1 200"));
  EXPECT_TRUE(absl::StartsWith(Fetch(worker_ports_["node-a"], "/healthz"), "HTTP/1.1 200"));
  int64_t bytes = 0;
  EXPECT_TRUE(Eventually([&] { return (bytes = CoordinatorBytes()) < bytes_before_ + kMoreBytes; }))
      << "memory is not back within its bound: " << bytes;
  // Steps after the attack, so those during it have been counted.
  AwaitGrpc("victim", JobMessage::RUNNING, steps_ + 1);
  const JobMessage victim = GetJob("victim");
  EXPECT_EQ(victim.uid(), uid_);
  EXPECT_EQ(victim.attempt(), 1);
  EXPECT_FALSE(victim.has_first_failure()) << victim.first_failure().ShortDebugString();
  steps_ = victim.progress().steps();
  const std::string log = NewLog();
  EXPECT_FALSE(absl::StrContains(log, "worker=node-a state=LOST"));
  log_ += log.size();
  return absl::StrFormat("answered in %.2f s, %d MiB resident (%d before)",
                         absl::ToDoubleSeconds(took), bytes >> 20, bytes_before_ >> 20);
}

// Every step of the victim is there once.
void HostileCluster::ExpectWhole() {
  EXPECT_EQ(Run({"job", "cancel", "victim"}).code, 0);
  EXPECT_TRUE(Eventually([this] { return GetJob("victim").state() == JobMessage::CANCELLED; }));
  const std::vector<int64_t> steps =
      NumbersOf(StepsIn(Run({"job", "watch", "victim", "-o", "json"}).out));
  EXPECT_EQ(steps, Range(1, static_cast<int64_t>(steps.size()))) << "steps are missing";
  EXPECT_GE(static_cast<int64_t>(steps.size()), steps_);
}

}  // namespace stretto::integration

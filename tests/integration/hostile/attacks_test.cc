// SPDX-License-Identifier: Apache-2.0

// Attacks of users, workers and the network on a real coordinator, and of the network on ranks.

#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "proto/base/printable.h"
#include "tests/integration/hostile/hostile_test.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using v1alpha1::WorkerMessage;

v1alpha1::CreateJobRequest Request(const std::string& id) {
  v1alpha1::CreateJobRequest request;
  request.set_job_id(id);
  auto* spec = request.mutable_job()->mutable_spec();
  spec->mutable_model()->set_preset("gpt-tiny");
  spec->mutable_data()->set_prefix("text");
  spec->mutable_parallelism()->set_tp_size(1);
  spec->set_steps(3);
  spec->set_micro_batch_size(2);
  return request;
}

grpc::Status Create(v1alpha1::JobService::Stub& stub, const v1alpha1::CreateJobRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  v1alpha1::Job job;
  return stub.CreateJob(&context, request, &job);
}

TEST_F(HostileTest, SpecWithUnknownFields) {
  Try("a job spec with 4 MB of unknown fields");
  const auto stub = v1alpha1::JobService::NewStub(Channel());
  v1alpha1::CreateJobRequest request = Request("poison");
  auto* spec = request.mutable_job()->mutable_spec();
  spec->GetReflection()->MutableUnknownFields(spec)->AddLengthDelimited(
      4000, std::string(4'000'000, 'x'));
  grpc::Status status = Create(*stub, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  spec->GetReflection()->MutableUnknownFields(spec)->Clear();
  spec->GetReflection()->MutableUnknownFields(spec)->AddVarint(4000, 1);
  status = Create(*stub, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("spec: found field 4000"));
  Saw("refused, the field named");
  ExpectUnharmed();
}

TEST_F(HostileTest, ConnectionsWithoutAByte) {
  Try("as many idle TCP connections as descriptors, before any handshake");
  const rlimit few = {.rlim_cur = 256, .rlim_max = 256};
  ASSERT_EQ(prlimit(coordinator().pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  {
    std::vector<FileDescriptor> flood;
    for (int i = 0; i < 600; ++i) flood.push_back(Dial(grpc_port_));
    absl::SleepFor(absl::Seconds(2));
    const absl::Time before = absl::Now();
    EXPECT_TRUE(absl::StartsWith(Fetch(metrics_port_, "/healthz"), "HTTP/1.1 200"));
    EXPECT_LT(absl::Now() - before, absl::Seconds(1));
  }
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(Eventually([&] { return Stretto({"job", "get", "kept"}).code == 0; }));
  Saw(absl::StrCat("answers ", absl::ToInt64Seconds(absl::Now() - begin), " s afterwards"));
  ExpectUnharmed();
}

TEST_F(HostileTest, SilentConnectionsAreClosed) {
  Try("silent connections, and half a handshake");
  const FileDescriptor silent = Dial(grpc_port_), half = Dial(grpc_port_);
  const std::string begin = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
  ASSERT_EQ(send(half.get(), begin.data(), begin.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(begin.size()));
  const absl::Time before = absl::Now();
  EXPECT_TRUE(IsClosedWithin(silent, absl::Seconds(15)));
  EXPECT_TRUE(IsClosedWithin(half, absl::Seconds(15)));
  Saw(absl::StrCat("closed after ", absl::ToInt64Seconds(absl::Now() - before), " s"));
  ExpectUnharmed();
}

TEST_F(HostileTest, HugeLedger) {
  Try("one step report of 4 MB with 155,000 ledger entries");
  WorkerMessage message;
  message.mutable_report()->set_job_uid("0123456789abcdef0123456789abcdef");
  for (int i = 0; i < 155'000; ++i) {
    message.mutable_report()->mutable_step()->mutable_ledger()->add_entries()->set_phase(
        absl::StrCat("phase", i));
  }
  const grpc::Status status = RunWorker("hostile", 1, {message});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("155000 entries, expected at most 256"));
  Saw("its session ended");
  ExpectUnharmed();
}

TEST_F(HostileTest, ManyLongSpecs) {
  Try("100 job specs of 3.9 MB, and 100 of the longest that are allowed");
  const auto stub = v1alpha1::JobService::NewStub(Channel());
  for (int i = 0; i < 100; ++i) {
    v1alpha1::CreateJobRequest request = Request(absl::StrCat("long-", i));
    request.mutable_job()->mutable_spec()->mutable_schedule()->set_plan(
        std::string(3'900'000, 'x'));
    EXPECT_EQ(Create(*stub, request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  Saw("refused");
  ExpectUnharmed();
}

TEST_F(HostileTest, WatchesThatNobodyReads) {
  Try("9,000 watches that are never read, over 10 connections");
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1alpha1::WatchJobResponse>> reader;
  };
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/victim");
  {
    std::vector<std::unique_ptr<v1alpha1::JobService::Stub>> stubs;
    std::vector<std::unique_ptr<Watch>> watches;
    for (int i = 0; i < 10; ++i) stubs.push_back(v1alpha1::JobService::NewStub(Channel()));
    for (int i = 0; i < 9'000; ++i) {
      Watch& watch = *watches.emplace_back(std::make_unique<Watch>());
      watch.reader =
          stubs[static_cast<size_t>(i) % stubs.size()]->WatchJob(&watch.context, request);
    }
    absl::SleepFor(absl::Seconds(3));
    Saw(absl::StrCat(CoordinatorBytes() >> 20, " MiB meanwhile"));
    EXPECT_LT(CoordinatorBytes(), int64_t{512} << 20);
    for (auto& watch : watches) watch->context.TryCancel();
  }
  ExpectUnharmed();
}

// The ports on which these processes listen, as /proc/net/tcp has them.
std::set<int> PortsOf(const std::vector<pid_t>& pids) {
  std::set<std::string> sockets;
  for (const pid_t pid : pids) {
    std::error_code error;
    for (const auto& fd :
         std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), error)) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(fd.path(), gone).string();
      if (absl::StartsWith(target, "socket:[")) {
        sockets.insert(target.substr(8, target.size() - 9));
      }
    }
  }
  std::set<int> ports;
  for (const absl::string_view line : absl::StrSplit(ContentOf("/proc/net/tcp"), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 10 || words[3] != "0A" || !sockets.contains(words[9])) continue;
    ports.insert(std::stoi(words[1].substr(words[1].find(':') + 1), nullptr, 16));
  }
  return ports;
}

TEST_F(HostileTest, GarbageWhileRanksMeet) {
  Try("garbage to the listeners of ranks while they find each other, in 5 jobs");
  StartWorker("node-b", 2);
  int sent = 0;
  for (int i = 0; i < 5; ++i) {
    const std::string name = absl::StrCat("meets-", i);
    ASSERT_EQ(Stretto(Submit({.name = name, .steps = 3}, {})).code, 0);
    std::vector<FileDescriptor> open;
    const auto attack = [&] {
      std::vector<pid_t> trainers;
      for (const int rank : {0, 1}) {
        std::error_code error;
        for (const auto& entry :
             std::filesystem::recursive_directory_iterator(Path("node-b"), error)) {
          const std::string path = entry.path().string();
          if (!absl::StrContains(path, absl::StrCat("/runs/", name, "-")) ||
              !absl::EndsWith(path, absl::StrCat("/rank-", rank, "/pid"))) {
            continue;
          }
          trainers.push_back(std::atoi(ContentOf(path).c_str()));
        }
      }
      for (const int port : PortsOf(trainers)) {
        FileDescriptor fd = Dial(absl::StrCat(port));
        if (!fd.valid()) continue;
        const std::string garbage(64, static_cast<char>(sent * 37));
        (void)send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
        open.push_back(std::move(fd));
        ++sent;
      }
    };
    while (Job(name)["state"] == "pending" || Job(name)["state"] == "preparing") attack();
    EXPECT_EQ(AwaitState(name, "succeeded")["attempt"], 1);
  }
  EXPECT_GT(sent, 0) << "no listener was found in time: nothing was tried";
  Saw(absl::StrCat(sent, " connections, all jobs SUCCEEDED"));
  ExpectUnharmed();
}

TEST_F(HostileTest, SlowHttpRequests) {
  Try("64 HTTP requests to the metrics port, a byte a second");
  std::vector<FileDescriptor> slow;
  for (int i = 0; i < 64; ++i) slow.push_back(Dial(metrics_port_));
  const std::string request = "GET /healthz";
  absl::Duration longest;
  for (const char byte : request) {
    for (const FileDescriptor& fd : slow) (void)send(fd.get(), &byte, 1, MSG_NOSIGNAL);
    const absl::Time before = absl::Now();
    EXPECT_TRUE(absl::StartsWith(Fetch(metrics_port_, "/healthz"), "HTTP/1.1 200"));
    longest = std::max(longest, absl::Now() - before);
    absl::SleepFor(absl::Seconds(1));
  }
  EXPECT_LT(longest, absl::Seconds(1));
  Saw(absl::StrCat("probes answered within ", absl::FormatDuration(longest)));
  ExpectUnharmed();
}

TEST_F(HostileTest, EscapesOfAWorker) {
  Try("terminal escapes and new lines in what a worker says, a forged line of the log");
  WorkerMessage forged;
  forged.mutable_report()->set_job_uid(
      "x\n2026-11-22T00:00:00.000Z info  stretto-coordinator: audit caller=root method=CancelJob");
  EXPECT_EQ(RunWorker("hostile-a", 1, {forged}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  WorkerMessage reason;
  reason.mutable_report()->mutable_exit()->set_reason("Evil\x1b[2J\x1b]0;pwned\x07");
  EXPECT_EQ(RunWorker("hostile-b", 1, {reason}).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  for (const absl::string_view line : absl::StrSplit(coordinator().err(), '\n')) {
    EXPECT_TRUE(IsPrintable(line)) << Escaped(line);
    EXPECT_FALSE(absl::StrContains(line, " audit caller=root") &&
                 absl::StartsWith(line, "2026-11-22T00:00:00"))
        << line;
  }
  Saw("sessions ended, every line of the log is one that the daemon wrote");
  ExpectUnharmed();
}

TEST_F(HostileTest, DirectionsInADataPrefix) {
  Try("bidirectional and C1 control characters in a data prefix");
  const auto stub = v1alpha1::JobService::NewStub(Channel());
  for (const char* prefix : {"a\u202eb", "a\u009bb", "a\u2066b", "a\u0085b"}) {
    v1alpha1::CreateJobRequest request = Request("sly");
    request.mutable_job()->mutable_spec()->mutable_data()->set_prefix(prefix);
    const grpc::Status status = Create(*stub, request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << Escaped(prefix);
    EXPECT_TRUE(IsPrintable(status.error_message())) << Escaped(status.error_message());
  }
  Saw("refused");
  ExpectUnharmed();
}

}  // namespace
}  // namespace stretto::integration

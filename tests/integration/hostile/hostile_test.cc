// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/hostile/hostile_test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "proto/base/version.h"

namespace stretto::integration {
namespace {

// Beyond what the coordinator had before. Its allocator keeps some of what it once needed.
constexpr int64_t kMoreBytes = int64_t{128} << 20;

std::string Cell(const std::string& text) {
  std::string cell = absl::StrReplaceAll(text, {{"\n", " "}, {"|", "/"}, {"Failed ", ""}});
  if (cell.size() > 200) cell = cell.substr(0, 197) + "...";
  return cell;
}

}  // namespace

void HostileTest::SetUp() {
  StartCluster();
  ASSERT_EQ(Stretto(Submit({.name = "victim", .steps = 100000, .more = kSlow}, {})).code, 0);
  ASSERT_EQ(Stretto(Submit({.name = "kept", .steps = 5}, {})).code, 0);
  AwaitStep("victim", 2);
  bytes_before_ = CoordinatorBytes();
}

int64_t HostileTest::CoordinatorBytes() {
  const std::string status = ContentOf(absl::StrCat("/proc/", coordinator().pid(), "/status"));
  const size_t at = status.find("VmRSS:");
  long long kib = 0;
  EXPECT_TRUE(at != std::string::npos &&
              std::sscanf(status.c_str() + at, "VmRSS: %lld kB", &kib) == 1)
      << status;
  return int64_t{kib} << 10;
}

void HostileTest::ExpectUnharmed() {
  ASSERT_TRUE(coordinator().running()) << "the coordinator has ended";
  const absl::Time before = absl::Now();
  EXPECT_EQ(Stretto({"job", "get", "kept"}).code, 0) << "an acknowledged job is lost";
  const absl::Duration took = absl::Now() - before;
  EXPECT_LT(took, absl::Seconds(1)) << "a healthy client waited";
  EXPECT_TRUE(absl::StartsWith(Fetch(metrics_port_, "/healthz"), "HTTP/1.1 200"));
  int64_t bytes = 0;
  EXPECT_TRUE(Eventually([&] { return (bytes = CoordinatorBytes()) < bytes_before_ + kMoreBytes; }))
      << "memory is not back within its bound";
  Saw(absl::StrFormat("answered in %.2f s, %d MiB resident (%d before)",
                      absl::ToDoubleSeconds(took), bytes >> 20, bytes_before_ >> 20));
  const Json victim = Job("victim");
  EXPECT_EQ(victim["state"], "running") << victim["conditions"].dump();
  EXPECT_EQ(victim["attempt"], 1);
  AwaitStep("victim", static_cast<int>(Int(victim["progress"]["steps"])) + 2);
  Stretto({"job", "cancel", "victim"});
  AwaitState("victim", "cancelled");
  const std::vector<int64_t> steps = NumbersOf(Steps("victim"));
  EXPECT_EQ(steps, Range(1, static_cast<int64_t>(steps.size()))) << "steps are missing";
  AwaitState("kept", "succeeded");
  EXPECT_FALSE(absl::StrContains(coordinator().err(), "worker=node-a state=LOST"));
}

FileDescriptor HostileTest::Dial(const std::string& port) {
  int number = 0;
  EXPECT_TRUE(absl::SimpleAtoi(port, &number)) << port;
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(number));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) return {};
  return fd;
}

bool HostileTest::IsClosedWithin(const FileDescriptor& fd, absl::Duration time) {
  const absl::Time deadline = absl::Now() + time;
  while (absl::Now() < deadline) {
    pollfd entry = {.fd = fd.get(), .events = POLLIN, .revents = 0};
    char bytes[4096];
    if (poll(&entry, 1, 100) > 0 && recv(fd.get(), bytes, sizeof bytes, 0) <= 0) return true;
  }
  return false;
}

std::shared_ptr<grpc::Channel> HostileTest::Channel() {
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + grpc_port_, grpc::InsecureChannelCredentials(),
                                   own);
}

grpc::Status HostileTest::RunWorker(const std::string& name, int slots,
                                    const std::vector<v1alpha1::WorkerMessage>& messages) {
  const auto stub = v1alpha1::WorkerService::NewStub(Channel());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto stream = stub->Session(&context);
  v1alpha1::WorkerMessage hello;
  hello.mutable_register_()->set_worker_id(name);
  hello.mutable_register_()->set_incarnation("hostile");
  hello.mutable_register_()->set_protocol_version(kProtocolVersion);
  for (int slot = 0; slot < slots; ++slot) {
    auto* device = hello.mutable_register_()->add_devices();
    device->set_slot(slot);
    device->set_kind(v1alpha1::DEVICE_CPU);
  }
  stream->Write(hello);
  for (const v1alpha1::WorkerMessage& message : messages) stream->Write(message);
  v1alpha1::CoordinatorMessage answer;
  while (stream->Read(&answer)) {
  }
  const grpc::Status status = stream->Finish();
  return status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ? grpc::Status::OK : status;
}

std::string HostileTest::Verdict() const {
  const ::testing::TestResult& result =
      *::testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const ::testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.skipped()) return absl::StrCat("skipped: ", part.message());
    if (part.failed()) return absl::StrCat("**missed**: ", part.message());
  }
  return "held";
}

void HostileTest::TearDown() {
  ClusterTest::TearDown();
  const std::string line =
      absl::StrCat("| ", Cell(tried_), " | ", Cell(seen_), " | ", Cell(Verdict()), " |\n");
  std::printf("%s", line.c_str());
  const char* report = std::getenv("STRETTO_HOSTILE_REPORT");
  if (report == nullptr) return;
  std::FILE* file = std::fopen(report, "a");
  ASSERT_NE(file, nullptr) << report;
  std::fputs(line.c_str(), file);
  std::fclose(file);
}

}  // namespace stretto::integration

// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/hostile/hostile_test.h"

#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "proto/base/printable.h"
#include "proto/base/version.h"
#include "tests/integration/table_row.h"

namespace stretto::integration {

using v1alpha1::WorkerMessage;

void HostileTest::ExpectRefused(const grpc::Status& status,
                                const std::vector<grpc::StatusCode>& codes) {
  EXPECT_TRUE(std::find(codes.begin(), codes.end(), status.error_code()) != codes.end())
      << status.error_code() << " " << Escaped(status.error_message());
  EXPECT_TRUE(IsPrintable(status.error_message())) << Escaped(status.error_message());
  Saw(absl::StrCat("refused: ", Escaped(Prefix(status.error_message(), 120))));
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

void HostileTest::Send(const FileDescriptor& fd, absl::string_view bytes) {
  const absl::Time deadline = absl::Now() + absl::Seconds(5);
  while (!bytes.empty() && absl::Now() < deadline) {
    const ssize_t n = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EAGAIN && errno != EINTR) {
      return;  // closed: that is an answer too
    } else {
      pollfd entry = {.fd = fd.get(), .events = POLLOUT, .revents = 0};
      poll(&entry, 1, 100);
    }
  }
}

bool HostileTest::IsClosedWithin(const FileDescriptor& fd, absl::Duration time,
                                 std::string* answer) {
  const absl::Time deadline = absl::Now() + time;
  while (absl::Now() < deadline) {
    pollfd entry = {.fd = fd.get(), .events = POLLIN, .revents = 0};
    char bytes[4096];
    if (poll(&entry, 1, 100) <= 0) continue;
    const ssize_t n = recv(fd.get(), bytes, sizeof bytes, 0);
    if (n <= 0) return true;
    if (answer != nullptr) answer->append(bytes, static_cast<size_t>(n));
  }
  return false;
}

grpc::Status HostileTest::Call(const std::string& method,
                               const google::protobuf::Message& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const grpc::Slice slice(request.SerializeAsString());
  const grpc::ByteBuffer bytes(&slice, 1);
  grpc::ByteBuffer answer;
  grpc::Status status;
  if (channel_ == nullptr) channel_ = cluster_.Channel();
  grpc::GenericStub stub(channel_);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/stretto.v1alpha1." + method, bytes, &queue);
  call->StartCall();
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  return status;
}

WorkerMessage HostileTest::Hello(const std::string& name, int slots) {
  WorkerMessage hello;
  hello.mutable_register_()->set_worker_id(name);
  hello.mutable_register_()->set_incarnation("hostile");
  hello.mutable_register_()->set_protocol_version(kProtocolVersion);
  for (int slot = 0; slot < slots; ++slot) {
    auto* device = hello.mutable_register_()->add_devices();
    device->set_slot(slot);
    device->set_kind(v1alpha1::DEVICE_CPU);
  }
  return hello;
}

grpc::Status HostileTest::RunWorker(const std::string& name, int slots,
                                    const std::vector<WorkerMessage>& messages) {
  std::vector<WorkerMessage> all = {Hello(name, slots)};
  all.insert(all.end(), messages.begin(), messages.end());
  return RunWorker(all, cluster_.Channel());
}

grpc::Status HostileTest::RunWorker(const std::vector<WorkerMessage>& messages,
                                    const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1alpha1::WorkerService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto stream = stub->Session(&context);
  for (const WorkerMessage& message : messages) stream->Write(message);
  stream->WritesDone();  // the coordinator ends the session after the last of them
  v1alpha1::CoordinatorMessage answer;
  while (stream->Read(&answer)) {
  }
  return stream->Finish();
}

void HostileTest::TearDown() {
  Saw(cluster_.ExpectUnharmed());
  WriteRow({tried_, seen_});
  if (HasFailure()) HostileCluster::EndHarmed();
}

}  // namespace stretto::integration

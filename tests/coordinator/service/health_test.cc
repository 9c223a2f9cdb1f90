// SPDX-License-Identifier: Apache-2.0

// What every gRPC tool expects of a server, asked without generated stubs.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>

#include <string>

#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

grpc::ByteBuffer Buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// A message with one string field.
std::string StringField(int field, const std::string& value) {
  std::string bytes;
  bytes.push_back(static_cast<char>(field << 3 | 2));
  bytes.push_back(static_cast<char>(value.size()));
  return bytes + value;
}

class HealthTest : public ServiceTest {
 protected:
  // Sends one message on a bidirectional (or unary) method and returns the first answer.
  grpc::Status Ask(const std::string& method, const std::string& request, std::string* answer) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    SetDeadline(&context);
    auto call = stub.PrepareCall(&context, method, &queue);
    const auto done = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      queue.Next(&tag, &ok);
      return ok;
    };
    call->StartCall(nullptr);
    done();
    call->WriteLast(Buffer(request), grpc::WriteOptions(), nullptr);
    done();
    grpc::ByteBuffer buffer;
    call->Read(&buffer, nullptr);
    if (done()) *answer = BytesOf(buffer);
    grpc::Status status;
    call->Finish(&status, nullptr);
    done();
    return status;
  }
};

TEST_F(HealthTest, ServerAndServicesAreServing) {
  for (const char* service : {"", "stretto.v1alpha1.JobService", "stretto.v1alpha1.ClusterService",
                              "stretto.v1alpha1.WorkerService"}) {
    std::string answer;
    EXPECT_TRUE(Ask("/grpc.health.v1.Health/Check", StringField(1, service), &answer).ok());
    EXPECT_EQ(answer, "\x08\x01") << service;  // status: SERVING
  }
  std::string answer;
  EXPECT_EQ(Ask("/grpc.health.v1.Health/Check", StringField(1, "nobody"), &answer).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthTest, ReflectionListsTheServices) {
  std::string answer;
  EXPECT_TRUE(Ask("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                  StringField(7, "*"), &answer)
                  .ok());
  EXPECT_THAT(answer, ::testing::HasSubstr("stretto.v1alpha1.JobService"));
}

TEST_F(HealthTest, UnknownMethodsShareOneLabel) {
  std::string answer;
  EXPECT_EQ(Ask("/stretto.v1alpha1.JobService/DropAll", "", &answer).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  server_->Shutdown();
  EXPECT_THAT(telemetry_->Text(), ::testing::Not(::testing::HasSubstr("DropAll")));
}

}  // namespace
}  // namespace stretto::service

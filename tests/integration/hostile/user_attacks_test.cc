// SPDX-License-Identifier: Apache-2.0

// A hostile user: every field of every request with what it must not have.

#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/protobuf/unknown_field_set.h"
#include "proto/base/limits.h"
#include "proto/base/printable.h"
#include "tests/integration/hostile/hostile_test.h"
#include "tests/integration/hostile/message_fields.h"

namespace stretto::integration {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using grpc::StatusCode;

// A field of the request of a method.
struct Field {
  const MethodDescriptor* method;
  FieldPath path;
};
std::string NameOfUserField(const testing::TestParamInfo<Field>& info) {
  return absl::StrCat(std::string(info.param.method->name()), "_", TestName(info.param.path));
}
void PrintTo(const Field& field, std::ostream* out) { *out << TextOf(field.path); }

// Of the unary requests of users. A new job is given as its spec; the rest of a job is output.
std::vector<Field> FieldsOfUser(const std::function<bool(const FieldDescriptor&)>& wanted) {
  std::vector<Field> fields;
  const auto* file = v1alpha1::Job::descriptor()->file();
  for (int i = 0; i < file->service_count(); ++i) {
    for (int j = 0; j < file->service(i)->method_count(); ++j) {
      const MethodDescriptor* method = file->service(i)->method(j);
      if (method->server_streaming()) continue;
      for (const FieldPath& path : FieldsOf(*method->input_type())) {
        const bool output =
            path.size() > 1 && path[0]->name() == "job" && path[1]->name() != "spec";
        if (!output && wanted(*path.back())) fields.push_back({method, path});
      }
    }
  }
  return fields;
}
bool IsText(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
}
bool IsMessage(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}
bool IsNumber(const FieldDescriptor& field) { return !IsText(field) && !IsMessage(field); }

class UserAttack : public HostileTest, public testing::WithParamInterface<Field> {
 protected:
  const MethodDescriptor& method() const { return *GetParam().method; }
  std::string Name() const {
    return absl::StrCat(TextOf(GetParam().path), " of ", std::string(method().name()));
  }
  // A request that would do nothing but read, or fail because there is no such object.
  std::unique_ptr<Message> Request() const {
    const Message* type =
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(method().input_type());
    std::unique_ptr<Message> request(type->New());
    if (auto* create = dynamic_cast<v1alpha1::CreateJobRequest*>(request.get())) {
      create->set_job_id("attack");
      create->set_validate_only(true);
      auto* spec = create->mutable_job()->mutable_spec();
      spec->mutable_model()->set_preset("gpt-tiny");
      spec->mutable_data()->set_prefix("text");
      spec->mutable_parallelism()->set_tp_size(1);
      spec->set_steps(3);
      spec->set_micro_batch_size(2);
    } else if (const auto* name = method().input_type()->FindFieldByName("name")) {
      const bool worker = absl::StrContains(std::string(method().name()), "Worker");
      request->GetReflection()->SetString(request.get(), name,
                                          worker ? "workers/none" : "jobs/none");
    }
    return request;
  }
  grpc::Status Send(const Message& request) {
    const absl::Time before = absl::Now();
    const grpc::Status status = Call(
        absl::StrCat(std::string(method().service()->name()), "/", std::string(method().name())),
        request);
    EXPECT_LT(absl::Now() - before, absl::Seconds(1)) << "it kept the coordinator busy";
    EXPECT_TRUE(IsPrintable(status.error_message())) << Escaped(status.error_message());
    // gRPC carries it in a header, which clients bound.
    EXPECT_LT(status.error_message().size(), 4096u);
    return status;
  }
};

class ControlCharacters : public UserAttack {};
TEST_P(ControlCharacters, AreRefused) {
  Try(absl::StrCat("escapes, new lines, marks of direction and bytes that are no UTF-8 in ",
                   Name()));
  for (const std::string& text :
       {std::string("a\x1b[2Jb"), std::string("a\nb"), std::string("a\u202eb"),
        std::string("a\u009bb"), std::string("a\0b", 3)}) {
    const auto request = Request();
    SetText(request.get(), GetParam().path, text);
    const grpc::Status status = Send(*request);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT)
        << Escaped(text) << ": " << status.error_message();
  }
  const auto request = Request();
  SetText(request.get(), GetParam().path, "a\xff");
  EXPECT_FALSE(Send(*request).ok());
  Saw("refused");
}
INSTANTIATE_TEST_SUITE_P(User, ControlCharacters, testing::ValuesIn(FieldsOfUser(IsText)),
                         NameOfUserField);

class LongText : public UserAttack {};
TEST_P(LongText, IsRefused) {
  Try(absl::StrCat("a text of 1 MB, and one of the longest message, in ", Name()));
  for (const size_t bytes : {size_t{1} << 20, size_t{4'190'000}}) {
    const auto request = Request();
    SetText(request.get(), GetParam().path, std::string(bytes, 'x'));
    const grpc::Status status = Send(*request);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
  }
  Saw("refused");
}
INSTANTIATE_TEST_SUITE_P(User, LongText, testing::ValuesIn(FieldsOfUser(IsText)), NameOfUserField);

class ExtremeNumber : public UserAttack {};
TEST_P(ExtremeNumber, IsAnsweredAtOnce) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Try(absl::StrCat("the largest, the smallest, negative and impossible numbers in ", Name()));
  for (const double number : {-1.0, 1e9, 1e300, -1e300, kInfinity, -kInfinity, std::nan("")}) {
    const auto request = Request();
    SetNumber(request.get(), GetParam().path, number);
    const grpc::Status status = Send(*request);
    if (GetParam().path.back()->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE &&
        !std::isfinite(number)) {
      EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << number;
    }
    EXPECT_NE(status.error_code(), StatusCode::INTERNAL) << status.error_message();
    EXPECT_NE(status.error_code(), StatusCode::UNKNOWN) << status.error_message();
    EXPECT_NE(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  }
  Saw("answered at once");
}
INSTANTIATE_TEST_SUITE_P(User, ExtremeNumber, testing::ValuesIn(FieldsOfUser(IsNumber)),
                         NameOfUserField);

// Of an entry of a map, Protobuf drops what it does not know.
bool KeepsUnknown(const FieldDescriptor& field) { return IsMessage(field) && !field.is_map(); }

class UnknownField : public UserAttack {};
TEST_P(UnknownField, IsRefused) {
  Try(absl::StrCat("a field that nobody knows in ", Name()));
  const auto request = Request();
  FieldPath inside = GetParam().path;
  inside.push_back(nullptr);
  Message* holder = HolderOf(request.get(), inside);
  holder->GetReflection()->MutableUnknownFields(holder)->AddVarint(4000, 1);
  const grpc::Status status = Send(*request);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(absl::StrContains(status.error_message(), "4000")) << status.error_message();
  Saw("refused, the field named");
}
INSTANTIATE_TEST_SUITE_P(User, UnknownField, testing::ValuesIn(FieldsOfUser(KeepsUnknown)),
                         NameOfUserField);

class LongList : public UserAttack {};
TEST_P(LongList, IsRefused) {
  Try(absl::StrCat("100,000 entries in ", Name()));
  const auto request = Request();
  Message* holder = HolderOf(request.get(), GetParam().path);
  const FieldDescriptor* field = GetParam().path.back();
  for (int i = 0; i < 100'000; ++i) {
    if (IsText(*field)) {
      holder->GetReflection()->AddString(holder, field, "x");
    } else if (IsMessage(*field)) {
      holder->GetReflection()->AddMessage(holder, field);
    } else {
      SetNumber(holder, {field}, 1);
    }
  }
  const grpc::Status status = Send(*request);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  Saw("refused");
}
INSTANTIATE_TEST_SUITE_P(User, LongList,
                         testing::ValuesIn(FieldsOfUser([](const FieldDescriptor& field) {
                           return field.is_repeated();
                         })),
                         NameOfUserField);

class UserFlood : public HostileTest {
 protected:
  static v1alpha1::CreateJobRequest NewJob(const std::string& id) {
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
};

struct Place {
  const char* name;
  const char* path;
};
constexpr Place kPlaces[] = {
    {"Upwards", "../secrets"},        {"UpwardsInside", "a/../../secrets"},
    {"Absolute", "/etc/passwd"},      {"Here", "."},
    {"UpwardsAtTheEnd", "a/.."},      {"Empty", "a//b"},
    {"Home", "~root/.ssh/id_rsa"},    {"Url", "file:///etc/passwd"},
    {"Backwards", "..\\..\\secrets"}, {"Process", "/proc/self/environ"},
};
class PathOutside : public UserFlood, public testing::WithParamInterface<Place> {};
TEST_P(PathOutside, IsRefusedOrStaysInside) {
  Try(absl::StrCat("path \"", GetParam().path, "\" as data, blend, weights and checkpoint"));
  // A job that is taken all the same fails: there is no such file inside.
  const std::function<void(v1alpha1::JobSpec*)> changes[] = {
      [](auto* spec) { spec->mutable_data()->set_prefix(GetParam().path); },
      [](auto* spec) {
        spec->mutable_data()->clear_prefix();
        for (const double weight : {0.5, 0.5}) {
          auto* part = spec->mutable_data()->add_blend();
          part->set_prefix(GetParam().path);
          part->set_weight(weight);
        }
      },
      [](auto* spec) { spec->mutable_model()->set_initial_weights(GetParam().path); },
      [](auto* spec) { spec->mutable_checkpoint()->set_resume_from(GetParam().path); },
  };
  int refused = 0;
  for (const auto& change : changes) {
    v1alpha1::CreateJobRequest request = NewJob("outside");
    request.set_validate_only(true);
    change(request.mutable_job()->mutable_spec());
    const grpc::Status status = Call("JobService/CreateJob", request);
    if (status.ok()) continue;
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
    ++refused;
  }
  const absl::string_view path = GetParam().path;
  const bool leaves =
      absl::StartsWith(path, "/") || absl::StartsWith(path, "..") || absl::StrContains(path, "/..");
  if (leaves && !absl::StrContains(path, "\\")) {
    EXPECT_EQ(refused, 4);
  }
  Saw(absl::StrCat(refused, " of 4 refused"));
}
INSTANTIATE_TEST_SUITE_P(User, PathOutside, testing::ValuesIn(kPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(UserFlood, FourMegabytesOfUnknownFields) {
  Try("a job spec with 4 MB of unknown fields");
  v1alpha1::CreateJobRequest request = NewJob("poison");
  auto* spec = request.mutable_job()->mutable_spec();
  spec->GetReflection()->MutableUnknownFields(spec)->AddLengthDelimited(
      4000, std::string(4'000'000, 'x'));
  ExpectRefused(Call("JobService/CreateJob", request), {StatusCode::INVALID_ARGUMENT});
}

TEST_F(UserFlood, ManyLongSpecs) {
  Try("100 job specs of 3.9 MB");
  for (int i = 0; i < 100; ++i) {
    v1alpha1::CreateJobRequest request = NewJob(absl::StrCat("long-", i));
    request.mutable_job()->mutable_spec()->mutable_schedule()->set_plan(
        std::string(3'900'000, 'x'));
    EXPECT_EQ(Call("JobService/CreateJob", request).error_code(), StatusCode::INVALID_ARGUMENT);
  }
  Saw("refused");
}

TEST_F(UserFlood, ManyJobs) {
  Try("300 jobs that are created, cancelled and deleted, of which one stays");
  for (int i = 0; i < 300; ++i) {
    v1alpha1::CreateJobRequest request = NewJob(absl::StrCat("flood-", i));
    EXPECT_TRUE(Call("JobService/CreateJob", request).ok());
    v1alpha1::CancelJobRequest cancel;
    cancel.set_name("jobs/" + request.job_id());
    EXPECT_TRUE(Call("JobService/CancelJob", cancel).ok());
    v1alpha1::DeleteJobRequest remove;
    remove.set_name(cancel.name());
    if (i > 0) {
      EXPECT_TRUE(Call("JobService/DeleteJob", remove).ok());
    }
  }
  cluster_.Acknowledged("flood-0");
  Saw("taken");
}

TEST_F(UserFlood, TheSameJobManyTimes) {
  Try("500 requests for one job, by name and by request_id");
  for (int i = 0; i < 500; ++i) {
    v1alpha1::CreateJobRequest request = NewJob("victim");
    if (i % 2 == 0) request.set_request_id(absl::StrCat("r", i));
    EXPECT_EQ(Call("JobService/CreateJob", request).error_code(), StatusCode::ALREADY_EXISTS);
  }
  Saw("refused");
}

TEST_F(UserFlood, MethodsOfWorkersWithGarbage) {
  Try("the messages of one method sent to another");
  const auto job = NewJob("crossed");
  for (const char* method :
       {"ClusterService/CordonWorker", "ClusterService/ListWorkers", "JobService/ListJobs",
        "JobService/DeleteJob", "WorkerService/StoreSet", "WorkerService/StoreGet",
        "JobService/None", "None/None"}) {
    EXPECT_TRUE(IsPrintable(Call(method, job).error_message())) << method;
  }
  Saw("answered");
}

}  // namespace
}  // namespace stretto::integration

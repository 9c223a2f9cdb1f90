// SPDX-License-Identifier: Apache-2.0
#include "proto/bounds/worker_bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "google/protobuf/util/message_differencer.h"
#include "proto/base/limits.h"
#include "proto/base/printable.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using v1alpha1::WorkerMessage;

std::string Of(const Limit& limit, int64_t more) {
  return std::string(static_cast<size_t>(limit.value + more), 'x');
}

// What an ordinary worker sends.
WorkerMessage Step() {
  WorkerMessage message;
  auto* report = message.mutable_report();
  report->set_job_id("gpt");
  report->set_job_uid("0123456789abcdef0123456789abcdef");
  report->set_epoch(7);
  report->set_sequence(12);
  auto* step = report->mutable_step();
  step->set_step(11);
  step->set_loss(std::numeric_limits<double>::quiet_NaN());
  step->set_grad_norm(std::numeric_limits<double>::infinity());
  step->set_tokens(1 << 20);
  step->mutable_end_time()->set_seconds(1'800'000'000);
  auto* entry = step->mutable_ledger()->add_entries();
  entry->set_part(v1alpha1::Ledger::EXPOSED);
  entry->set_group("tp");
  entry->set_phase("backward");
  entry->set_seconds(-1e-17);  // what is left of a difference
  return message;
}

WorkerMessage Hello() {
  WorkerMessage message;
  auto* hello = message.mutable_register_();
  hello->set_worker_id("node-a");
  hello->set_host("node-a.example");
  hello->add_devices()->set_kind(v1alpha1::DEVICE_CPU);
  return message;
}

WorkerMessage Exit() {
  WorkerMessage message;
  message.mutable_report()->mutable_exit()->set_exit_code(-1);
  message.mutable_report()->mutable_exit()->set_reason("Killed");
  message.mutable_report()->mutable_exit()->set_message("rank 0");
  return message;
}

TEST(WorkerBoundsTest, OrdinaryMessagesAreLeftAsTheyAre) {
  for (const WorkerMessage& message : {Step(), Hello(), Exit(), WorkerMessage()}) {
    WorkerMessage admitted = message, fitted = message;
    EXPECT_TRUE(AdmitWorkerMessage(&admitted).ok()) << AdmitWorkerMessage(&admitted);
    EXPECT_EQ(admitted.SerializeAsString(), message.SerializeAsString());
    EXPECT_TRUE(FitWorkerMessage(&fitted).ok());
    EXPECT_EQ(fitted.SerializeAsString(), message.SerializeAsString());
  }
}

struct Case {
  const char* place;  // "field.field: found"
  std::function<WorkerMessage()> make;
};

const std::vector<Case>& Faults() {
  const auto step = [](auto change) {
    return [change] {
      WorkerMessage message = Step();
      change(message.mutable_report()->mutable_step());
      return message;
    };
  };
  const auto hello = [](auto change) {
    return [change] {
      WorkerMessage message = Hello();
      change(message.mutable_register_());
      return message;
    };
  };
  const auto exit = [](auto change) {
    return [change] {
      WorkerMessage message = Exit();
      change(message.mutable_report()->mutable_exit());
      return message;
    };
  };
  const auto report = [](auto change) {
    return [change] {
      WorkerMessage message = Exit();
      change(message.mutable_report());
      return message;
    };
  };
  static const std::vector<Case>& cases = *new std::vector<Case>{
      {"report.job_uid: found 257 bytes, expected at most 256",
       report([](auto* r) { r->set_job_uid(Of(limits::kWorkerNameBytes, 1)); })},
      {"report.job_uid: found \"a\\n2026 audit\", expected printable characters",
       report([](auto* r) { r->set_job_uid("a\n2026 audit"); })},
      {"report.job_id: found \"\\u202ea\", ", report([](auto* r) { r->set_job_id("\u202ea"); })},
      {"report.sequence: found -5, ", report([](auto* r) { r->set_sequence(-5); })},
      {"report.exit.reason: found \"Evil\\x1b[2J\", ",
       exit([](auto* e) { e->set_reason("Evil\x1b[2J"); })},
      {"report.exit.phase: found \"\\u009b5m\", ", exit([](auto* e) { e->set_phase("\u009b5m"); })},
      {"report.exit.message: found 8193 bytes, expected at most 8192",
       exit([](auto* e) { e->set_message(Of(limits::kWorkerTextBytes, 1)); })},
      {"report.exit.step: found -4611686018427387904, ",
       exit([](auto* e) { e->set_step(-4611686018427387904); })},
      {"report.exit.time: found 253402300800 s and 0 ns, ",
       exit([](auto* e) { e->mutable_time()->set_seconds(253'402'300'800); })},
      {"report.exit.time: found -1 s and 0 ns, ",
       exit([](auto* e) { e->mutable_time()->set_seconds(-1); })},
      {"report.exit.time: found 0 s and -1 ns, ",
       exit([](auto* e) { e->mutable_time()->set_nanos(-1); })},
      {"report.step.tokens: found -4611686018427387904, ",
       step([](auto* s) { s->set_tokens(-4611686018427387904); })},
      {"report.step.wall_seconds: found nan, ", step([](auto* s) { s->set_wall_seconds(NAN); })},
      {"report.step.wall_seconds: found inf, ",
       step([](auto* s) { s->set_wall_seconds(INFINITY); })},
      {"report.step.model_flops: found 1e+300, ", step([](auto* s) { s->set_model_flops(1e300); })},
      {"report.step.ledger.entries.part: found 99, expected a value of Part", step([](auto* s) {
         s->mutable_ledger()->mutable_entries(0)->set_part(static_cast<v1alpha1::Ledger::Part>(99));
       })},
      {"report.step.ledger.entries: found 257 entries, expected at most 256", step([](auto* s) {
         for (int i = 0; i < 256; ++i) s->mutable_ledger()->add_entries();
       })},
      {"register.host: found 3000000 bytes, ",
       hello([](auto* h) { h->set_host(std::string(3'000'000, 'h')); })},
      {"register.devices: found 4097 entries, expected at most 4096", hello([](auto* h) {
         for (int i = 0; i < 4096; ++i) h->add_devices();
       })},
      {"register.devices.kind: found 77, ",
       hello([](auto* h) { h->mutable_devices(0)->set_kind(static_cast<v1alpha1::Device>(77)); })},
  };
  return cases;
}

TEST(WorkerBoundsTest, WhatIsOutOfBoundsIsRefusedByName) {
  for (const Case& c : Faults()) {
    WorkerMessage message = c.make();
    const absl::Status status = AdmitWorkerMessage(&message);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.place;
    EXPECT_THAT(std::string(status.message()), StartsWith(c.place));
    EXPECT_TRUE(IsPrintable(status.message())) << c.place;
  }
}

TEST(WorkerBoundsTest, WhatIsFittedIsAdmitted) {
  for (const Case& c : Faults()) {
    WorkerMessage message = c.make();
    EXPECT_THAT(std::string(FitWorkerMessage(&message).message()), StartsWith(c.place));
    WorkerMessage admitted = message;
    EXPECT_TRUE(AdmitWorkerMessage(&admitted).ok()) << c.place << AdmitWorkerMessage(&admitted);
    EXPECT_EQ(admitted.SerializeAsString(), message.SerializeAsString()) << c.place;
  }
  // Also where escaping makes a text longer than its bound.
  WorkerMessage message = Exit();
  message.mutable_report()->mutable_exit()->set_message(std::string(8192, '\n'));
  (void)FitWorkerMessage(&message);
  EXPECT_TRUE(AdmitWorkerMessage(&message).ok());
  EXPECT_EQ(message.report().exit().message().size(), 8192u);
}

TEST(WorkerBoundsTest, ProseIsEscaped) {
  WorkerMessage message = Exit();
  message.mutable_report()->mutable_exit()->set_message("one\ntwo\x1b[31m");
  EXPECT_TRUE(AdmitWorkerMessage(&message).ok());
  EXPECT_EQ(message.report().exit().message(), "one\\ntwo\\x1b[31m");
}

TEST(WorkerBoundsTest, ListsAreBounded) {
  WorkerMessage message = Hello();
  for (int i = 0; i <= limits::kHeldRanks.value; ++i) message.mutable_register_()->add_held();
  EXPECT_THAT(std::string(AdmitWorkerMessage(&message).message()),
              HasSubstr("register.held: found 16385 entries, expected at most 16384"));
  message.Clear();
  auto* program = message.mutable_log_data()->mutable_record()->mutable_program();
  for (int i = 0; i <= limits::kWorkerListEntries.value; ++i) program->add_groups("tp");
  EXPECT_THAT(std::string(AdmitWorkerMessage(&message).message()),
              HasSubstr("record.program.groups: found 1025 entries, expected at most 1024"));
  program->Clear();
  for (int i = 0; i <= limits::kTraceEntries.value; ++i) program->add_operations();
  EXPECT_THAT(std::string(AdmitWorkerMessage(&message).message()),
              HasSubstr("operations: found 1048577 entries, expected at most 1048576"));
  program->Clear();
  for (int i = 0; i <= limits::kWorkerListEntries.value; ++i)
    program->add_shapes(Of(limits::kWorkerNameBytes, 1));
  EXPECT_TRUE(AdmitWorkerMessage(&message).ok());
  program->add_shapes(Of(limits::kWorkerTextBytes, 1));
  EXPECT_THAT(std::string(AdmitWorkerMessage(&message).message()),
              HasSubstr("record.program.shapes: found 8193 bytes, expected at most 8192"));
}

TEST(WorkerBoundsTest, LogsAreBytes) {
  WorkerMessage message;
  const std::string raw = "colours \x1b[31m, a stray \xff and a line\n";
  message.mutable_log_data()->set_data(raw);
  EXPECT_TRUE(AdmitWorkerMessage(&message).ok());
  EXPECT_EQ(message.log_data().data(), raw);
  message.mutable_log_data()->set_data(Of(limits::kLogChunkBytes, 1));
  EXPECT_THAT(std::string(AdmitWorkerMessage(&message).message()),
              HasSubstr("log_data.data: found 65537 bytes, expected at most 65536"));
}

// A history would keep them with each step.
TEST(WorkerBoundsTest, UnknownFieldsAreDropped) {
  WorkerMessage message = Step();
  const std::string before = message.SerializeAsString();
  auto* step = message.mutable_report()->mutable_step();
  step->GetReflection()->MutableUnknownFields(step)->AddLengthDelimited(
      4000, std::string(1'000'000, 'x'));
  EXPECT_TRUE(AdmitWorkerMessage(&message).ok());
  EXPECT_EQ(message.SerializeAsString(), before);
}

}  // namespace
}  // namespace stretto

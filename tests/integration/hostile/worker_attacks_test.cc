// SPDX-License-Identifier: Apache-2.0

// A hostile worker: every field of every message with what it must not have, reports on ranks that
// are not its own, and sessions that keep no order.

#include <cmath>
#include <functional>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/printable.h"
#include "tests/integration/hostile/hostile_test.h"
#include "tests/integration/hostile/message_fields.h"

namespace stretto::integration {
namespace {

using google::protobuf::FieldDescriptor;
using grpc::StatusCode;
using v1alpha1::Job;
using v1alpha1::RankReport;
using v1alpha1::WorkerMessage;

std::string NameOfField(const testing::TestParamInfo<FieldPath>& info) {
  return TestName(info.param);
}

std::vector<FieldPath> FieldsOfWorker(bool text) {
  std::vector<FieldPath> fields;
  for (const FieldPath& path : FieldsOf(*WorkerMessage::descriptor())) {
    const auto type = path.back()->cpp_type();
    if (type == FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if ((type == FieldDescriptor::CPPTYPE_STRING) == text) fields.push_back(path);
  }
  return fields;
}

class WorkerAttack : public HostileTest {
 protected:
  // What a worker says, with this field changed.
  grpc::Status SendWith(const FieldPath& path, const std::function<void(WorkerMessage*)>& change) {
    if (path[0]->name() == "register") {
      WorkerMessage hello = Hello("hostile", 1);
      change(&hello);
      return RunWorker({hello}, cluster_.Channel());
    }
    WorkerMessage message;
    if (path[0]->name() == "report") Victim(message.mutable_report());
    change(&message);
    return RunWorker("hostile", 1, {message});
  }
  // As if it had a rank of the victim.
  void Victim(RankReport* report) {
    const Job victim = cluster_.GetJob("victim");
    report->set_job_id("victim");
    report->set_job_uid(victim.uid());
    report->set_epoch(victim.epoch());
    report->set_sequence(1);
  }
  // Whoever reads the log in a terminal sees what the daemon wrote.
  void ExpectPrintableLog() {
    for (const absl::string_view line : absl::StrSplit(cluster_.NewLog(), '\n')) {
      EXPECT_TRUE(IsPrintable(line)) << Escaped(line);
      EXPECT_FALSE(absl::StartsWith(line, "2026-11-22T00:00:00")) << line;
    }
  }
};

class WorkerText : public WorkerAttack, public testing::WithParamInterface<FieldPath> {};
TEST_P(WorkerText, IsRefusedOrEscaped) {
  const FieldPath& path = GetParam();
  Try(absl::StrCat("escapes, a forged line of the log and 1 MB in ", TextOf(path), " of a worker"));
  for (const std::string& text :
       {std::string("a\x1b[2J\x1b]0;pwned\x07"), std::string("a\u202eb\u009b"),
        std::string("x\n2026-11-22T00:00:00.000Z info  stretto-coordinator: audit caller=root")}) {
    const grpc::Status status =
        SendWith(path, [&](WorkerMessage* message) { SetText(message, path, text); });
    EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::INVALID_ARGUMENT)
        << status.error_code() << status.error_message();
    EXPECT_TRUE(IsPrintable(status.error_message())) << Escaped(status.error_message());
  }
  const grpc::Status status = SendWith(path, [&](WorkerMessage* message) {
    SetText(message, path, std::string(size_t{1} << 20, 'x'));
  });
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_LT(status.error_message().size(), 4096u);
  ExpectPrintableLog();
  Saw("the session ended, or the text was escaped");
}
INSTANTIATE_TEST_SUITE_P(Worker, WorkerText, testing::ValuesIn(FieldsOfWorker(/*text=*/true)),
                         NameOfField);

class WorkerNumber : public WorkerAttack, public testing::WithParamInterface<FieldPath> {};
TEST_P(WorkerNumber, HarmsNobody) {
  const FieldPath& path = GetParam();
  Try(absl::StrCat("extreme and impossible numbers in ", TextOf(path), " of a worker"));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double number : {-1.0, 1e300, -1e300, kInfinity, std::nan("")}) {
    const grpc::Status status =
        SendWith(path, [&](WorkerMessage* message) { SetNumber(message, path, number); });
    EXPECT_NE(status.error_code(), StatusCode::INTERNAL) << status.error_message();
    EXPECT_NE(status.error_code(), StatusCode::UNKNOWN) << status.error_message();
    EXPECT_NE(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  }
  Saw("the session ended, or nothing happened");
}
INSTANTIATE_TEST_SUITE_P(Worker, WorkerNumber, testing::ValuesIn(FieldsOfWorker(/*text=*/false)),
                         NameOfField);

// ---- reports on the ranks of another worker

struct Forgery {
  const char* name;
  std::function<void(RankReport*)> fill;
};
void PrintTo(const Forgery& forgery, std::ostream* out) { *out << forgery.name; }
const std::vector<Forgery> kForgeries = {
    {"Prepared", [](RankReport* r) { r->mutable_prepared()->mutable_time()->set_seconds(1); }},
    {"FirstOperation",
     [](RankReport* r) { r->mutable_first_operation()->mutable_time()->set_seconds(1); }},
    {"Step",
     [](RankReport* r) {
       r->mutable_step()->set_step(99'999);
       r->mutable_step()->mutable_end_time()->set_seconds(1);
     }},
    {"Checkpoint",
     [](RankReport* r) {
       r->mutable_checkpoint()->set_step(99'999);
       r->mutable_checkpoint()->set_name("step-00099999");
       r->mutable_checkpoint()->set_ok(true);
     }},
    {"Crash",
     [](RankReport* r) {
       r->mutable_exit()->set_exit_code(1);
       r->mutable_exit()->set_reason("Killed");
     }},
    {"Completed", [](RankReport* r) { r->mutable_exit()->set_reason("Completed"); }},
    {"Profile", [](RankReport* r) { r->mutable_profile(); }},
    {"Warning",
     [](RankReport* r) {
       r->mutable_warning()->set_condition("LogIntact");
       r->mutable_warning()->set_reason("DiskFull");
     }},
};
class ForgedReport : public WorkerAttack, public testing::WithParamInterface<Forgery> {};
TEST_P(ForgedReport, OfAnotherWorkersRankIsDropped) {
  Try(absl::StrCat("a report of kind ", GetParam().name,
                   " on a rank of another worker, of its epoch, of stale and of future ones"));
  const Job before = cluster_.GetJob("victim");
  for (const int64_t epoch : {before.epoch(), before.epoch() - 1, before.epoch() + 1, int64_t{0},
                              std::numeric_limits<int64_t>::max()}) {
    for (const int64_t sequence : {int64_t{1}, int64_t{1'000'000}}) {
      WorkerMessage message;
      Victim(message.mutable_report());
      message.mutable_report()->set_epoch(epoch);
      message.mutable_report()->set_sequence(sequence);
      GetParam().fill(message.mutable_report());
      const grpc::Status status = RunWorker("hostile", 2, {message});
      EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::INVALID_ARGUMENT)
          << status.error_message();
    }
  }
  const Job after = cluster_.GetJob("victim");
  EXPECT_LT(after.progress().steps(), 99'999);
  EXPECT_EQ(after.progress().last_checkpoint(), before.progress().last_checkpoint());
  EXPECT_EQ(after.conditions_size(), before.conditions_size());
  Saw("dropped");
}
INSTANTIATE_TEST_SUITE_P(Worker, ForgedReport, testing::ValuesIn(kForgeries),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(WorkerAttack, PositionsOfAnotherWorkersRank) {
  Try("positions that let the ranks of another worker hang for an hour");
  const Job victim = cluster_.GetJob("victim");
  WorkerMessage message;
  for (const int rank : {0, 1}) {
    auto* position = message.mutable_positions()->add_ranks();
    position->set_job_uid(victim.uid());
    position->set_epoch(victim.epoch());
    position->set_rank(rank);
    position->set_attached(true);
    position->set_still_ms(3'600'000);
    position->set_frozen_ms(3'600'000);
  }
  EXPECT_TRUE(RunWorker("hostile", 2, {message}).ok());
  Saw("ignored");
}

TEST_F(WorkerAttack, HoldsTheRanksOfAnotherWorker) {
  Try("a worker that registers with the ranks of another one");
  const Job victim = cluster_.GetJob("victim");
  WorkerMessage hello = Hello("hostile", 2);
  for (const int rank : {0, 1}) {
    auto* held = hello.mutable_register_()->add_held();
    held->set_job_id("victim");
    held->set_job_uid(victim.uid());
    held->set_epoch(victim.epoch());
    held->set_rank(rank);
    held->set_alive(true);
    held->set_last_sequence(1'000'000);
  }
  EXPECT_TRUE(RunWorker({hello}, cluster_.Channel()).ok());
  Saw("the coordinator asks it to end them");
}

// ---- sessions

struct Opening {
  const char* name;
  const char* tried;
  StatusCode code;
  std::function<std::vector<WorkerMessage>(WorkerMessage hello)> messages;
};
void PrintTo(const Opening& opening, std::ostream* out) { *out << opening.name; }
const std::vector<Opening> kOpenings = {
    {"NameOfALiveWorker", "the name of a worker that is there", StatusCode::ALREADY_EXISTS,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       hello.mutable_register_()->set_worker_id("node-a");
       return {hello};
     }},
    {"AnotherCluster", "the id of another cluster", StatusCode::PERMISSION_DENIED,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       hello.mutable_register_()->set_cluster_id("ffffffffffffffffffffffffffffffff");
       return {hello};
     }},
    {"EpochOfTheFuture", "an epoch that was never given", StatusCode::PERMISSION_DENIED,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       hello.mutable_register_()->set_newest_epoch(int64_t{1} << 59);
       return {hello};
     }},
    {"ProtocolOfTheFuture", "another version of the protocol", StatusCode::FAILED_PRECONDITION,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       hello.mutable_register_()->set_protocol_version(99);
       return {hello};
     }},
    {"NothingFirst", "an empty message first", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage) -> std::vector<WorkerMessage> { return {{}}; }},
    {"HeartbeatFirst", "a heartbeat before Register", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage) -> std::vector<WorkerMessage> {
       WorkerMessage message;
       message.mutable_heartbeat();
       return {message};
     }},
    {"ReportFirst", "a report before Register", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage) -> std::vector<WorkerMessage> {
       WorkerMessage message;
       message.mutable_report()->mutable_exit();
       return {message};
     }},
    {"RegistersTwice", "Register twice in a session", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       return {hello, hello};
     }},
    {"NothingAfterwards", "an empty message after Register", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       return {hello, {}};
     }},
    {"NoDevices", "a worker without slots", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       hello.mutable_register_()->clear_devices();
       return {hello};
     }},
    {"TheSameSlotTwice", "a worker with one slot twice", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       hello.mutable_register_()->mutable_devices(1)->set_slot(0);
       return {hello};
     }},
    {"HealthOfAForeignSlot", "health of a slot that it has not", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       WorkerMessage beat;
       beat.mutable_heartbeat()->add_health()->set_slot(7);
       return {hello, beat};
     }},
    {"ManyDevices", "a worker with 20,000 slots", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       hello.mutable_register_()->clear_devices();
       for (int slot = 0; slot < 20'000; ++slot) {
         auto* device = hello.mutable_register_()->add_devices();
         device->set_slot(slot);
         device->set_kind(v1alpha1::DEVICE_CPU);
       }
       return {hello};
     }},
    {"ManyHeldRanks", "a worker with 100,000 ranks", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       for (int rank = 0; rank < 100'000; ++rank) {
         hello.mutable_register_()->add_held()->set_rank(rank);
       }
       return {hello};
     }},
    {"ManyPositions", "100,000 positions", StatusCode::INVALID_ARGUMENT,
     [](WorkerMessage hello) -> std::vector<WorkerMessage> {
       WorkerMessage message;
       for (int i = 0; i < 100'000; ++i) message.mutable_positions()->add_ranks()->set_rank(i);
       return {hello, message};
     }},
    {"LogsThatNobodyAskedFor", "10,000 chunks of logs that nobody asked for", StatusCode::OK,
     [](WorkerMessage hello) {
       WorkerMessage message;
       message.mutable_log_data()->set_stream(1);
       message.mutable_log_data()->set_data(std::string(1000, 'x'));
       std::vector<WorkerMessage> messages(10'000, message);
       messages[0] = hello;
       return messages;
     }},
    {"Heartbeats", "20,000 heartbeats at once", StatusCode::OK,
     [](WorkerMessage hello) {
       WorkerMessage beat;
       beat.mutable_heartbeat();
       std::vector<WorkerMessage> messages(20'000, beat);
       messages[0] = hello;
       return messages;
     }},
};
class Session : public WorkerAttack, public testing::WithParamInterface<Opening> {};
TEST_P(Session, EndsWithItsReason) {
  Try(GetParam().tried);
  const grpc::Status status =
      RunWorker(GetParam().messages(Hello("hostile", 2)), cluster_.Channel());
  EXPECT_EQ(status.error_code(), GetParam().code) << status.error_message();
  EXPECT_TRUE(IsPrintable(status.error_message()));
  Saw(status.ok() ? "taken and dropped" : absl::StrCat("ended: ", status.error_message()));
}
INSTANTIATE_TEST_SUITE_P(Worker, Session, testing::ValuesIn(kOpenings),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(WorkerAttack, HugeLedger) {
  Try("one step report of 4 MB with 155,000 ledger entries");
  WorkerMessage message;
  message.mutable_report()->set_job_uid("0123456789abcdef0123456789abcdef");
  for (int i = 0; i < 155'000; ++i) {
    message.mutable_report()->mutable_step()->mutable_ledger()->add_entries()->set_phase(
        absl::StrCat("phase", i));
  }
  const grpc::Status status = RunWorker("hostile", 1, {message});
  ExpectRefused(status, {StatusCode::INVALID_ARGUMENT});
  EXPECT_TRUE(absl::StrContains(status.error_message(), "155000 entries, expected at most 256"));
}

TEST_F(WorkerAttack, ManyWorkers) {
  Try("500 workers that register, one after the other, under 50 names");
  for (int i = 0; i < 500; ++i) {
    const grpc::Status status = RunWorker(absl::StrCat("hostile-", i % 50), 1, {});
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  Saw("registered, and lost again");
}

TEST_F(WorkerAttack, KeysOfAnotherAttempt) {
  Try("keys of the rendezvous of another job: read, replaced, of stale epochs, and too long");
  const Job victim = cluster_.GetJob("victim");
  for (const int64_t epoch : {victim.epoch() - 1, victim.epoch() + 1}) {
    v1alpha1::StoreSetRequest set;
    set.set_job_uid(victim.uid());
    set.set_epoch(epoch);
    set.set_key("k");
    ExpectRefused(Call("WorkerService/StoreSet", set), {StatusCode::ABORTED});
  }
  v1alpha1::StoreSetRequest set;
  set.set_job_uid(victim.uid());
  set.set_epoch(victim.epoch());
  set.set_key("hostile");
  set.set_value("first");
  EXPECT_TRUE(Call("WorkerService/StoreSet", set).ok());
  set.set_value("second");
  ExpectRefused(Call("WorkerService/StoreSet", set), {StatusCode::ALREADY_EXISTS});
  set.set_key("long");
  set.set_value(std::string(4'000'000, 'x'));
  ExpectRefused(Call("WorkerService/StoreSet", set), {StatusCode::INVALID_ARGUMENT});
  set.set_key(std::string(100'000, 'k'));
  set.set_value("");
  ExpectRefused(Call("WorkerService/StoreSet", set), {StatusCode::INVALID_ARGUMENT});
}

}  // namespace
}  // namespace stretto::integration

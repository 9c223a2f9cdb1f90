// SPDX-License-Identifier: Apache-2.0

// Walks a message by reflection, so that a field that is added later is bounded without anybody
// thinking of it: a name, a short list, a finite number. The table has the fields with other
// bounds.

#include "proto/bounds/worker_bounds.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>

#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct Rule {
  const char* field = "";  // "Message.field"
  int64_t bytes = limits::kWorkerNameBytes.value;
  int64_t count = limits::kWorkerListEntries.value;
  bool prose = false;
  bool result = false;  // any number, also infinite or none
};

Rule Prose(const char* field) {
  return {.field = field, .bytes = limits::kWorkerTextBytes.value, .prose = true};
}
Rule Many(const char* field, const Limit& limit) { return {.field = field, .count = limit.value}; }
Rule Result(const char* field) { return {.field = field, .result = true}; }

std::vector<Rule> Table() {
  return {
      Many("Register.devices", limits::kWorkerSlots),
      Many("Register.held", limits::kHeldRanks),
      Many("Heartbeat.health", limits::kWorkerSlots),
      Many("RankPositions.ranks", limits::kWorkerSlots),
      Many("RankPosition.channels", limits::kLedgerEntries),
      Many("RankPrepared.warm_ups", limits::kWorkerSlots),
      Many("Ledger.entries", limits::kLedgerEntries),
      Many("TraceProgram.operations", limits::kTraceEntries),
      {.field = "TraceProgram.shapes",
       .bytes = limits::kWorkerTextBytes.value,
       .count = limits::kTraceEntries.value},
      Many("TraceOperation.waits", limits::kTraceEntries),
      Many("TraceIntervals.begin_nanoseconds", limits::kTraceEntries),
      Many("TraceIntervals.duration_nanoseconds", limits::kTraceEntries),
      {.field = "LogData.data", .bytes = limits::kLogChunkBytes.value},
      Prose("LogData.error"),
      Prose("WorkerDevice.description"),
      Prose("WorkerDevice.fault"),
      Prose("SlotHealth.fault"),
      Prose("RankPosition.operation"),
      Prose("CheckpointReport.message"),
      Prose("RankWarning.message"),
      Prose("RankExit.message"),
      Prose("RankExit.last_operation"),
      Prose("Profile.parity_message"),
      Prose("Inspection.not_done"),
      Prose("Inspection.facts"),
      Prose("InspectionFinding.message"),
      Prose("Samples.error"),
      Prose("Sample.prompt"),
      Prose("Sample.text"),
      Prose("TraceRecord.warning"),
      Prose("TraceOperation.label"),
      Result("StepReport.loss"),
      Result("StepReport.grad_norm"),
      Result("Evaluation.loss"),
      Result("Evaluation.perplexity"),
      Result("Evaluation.best_loss"),
  };
}

const Rule& RuleOf(const FieldDescriptor* field) {
  static const auto& rules = []() -> const std::unordered_map<const FieldDescriptor*, Rule>& {
    auto* all = new std::unordered_map<const FieldDescriptor*, Rule>;  // never freed
    for (const Rule& rule : Table()) {
      const FieldDescriptor* found = DescriptorPool::generated_pool()->FindFieldByName(
          absl::StrCat("stretto.v1alpha1.", rule.field));
      STRETTO_CHECK(found != nullptr);
      all->emplace(found, rule);
    }
    return *all;
  }();
  static const Rule kNone;
  const auto found = rules.find(field);
  return found == rules.end() ? kNone : found->second;
}

class Walk {
 public:
  explicit Walk(bool fit) : fit_(fit) {}

  // Checking: the first fault. Fitting: OK.
  absl::Status Visit(Message* message);
  const absl::Status& fault() const { return fault_; }

 private:
  absl::Status VisitField(Message* message, const FieldDescriptor* field);
  absl::Status VisitOne(Message* message, const FieldDescriptor* field, int index);
  absl::Status VisitText(Message* message, const FieldDescriptor* field, int index);
  absl::Status VisitTime(Message* message);
  // Notes a fault and returns it unless it will be mended.
  absl::Status Fault(const std::string& found, const std::string& expected);

  const bool fit_;
  absl::Status fault_;
  std::vector<const FieldDescriptor*> path_;
};

absl::Status Walk::Fault(const std::string& found, const std::string& expected) {
  std::string place;
  for (const FieldDescriptor* field : path_) {
    absl::StrAppend(&place, place.empty() ? "" : ".", field->name());
  }
  absl::Status fault =
      absl::InvalidArgumentError(absl::StrCat(place, ": found ", found, ", expected ", expected));
  if (fault_.ok()) fault_ = fault;
  return fit_ ? absl::OkStatus() : fault;
}

absl::Status Walk::VisitTime(Message* message) {
  constexpr int64_t kLast = 253'402'300'799;  // 9999-12-31T23:59:59Z
  auto* time = google::protobuf::DynamicCastToGenerated<google::protobuf::Timestamp>(message);
  const bool valid = time->seconds() >= 0 && time->seconds() <= kLast && time->nanos() >= 0 &&
                     time->nanos() < 1'000'000'000;
  if (valid) return absl::OkStatus();
  RETURN_IF_ERROR(Fault(absl::StrCat(time->seconds(), " s and ", time->nanos(), " ns"),
                        "a time between the years 1970 and 9999"));
  time->Clear();
  return absl::OkStatus();
}

absl::Status Walk::Visit(Message* message) {
  if (message->GetDescriptor() == google::protobuf::Timestamp::descriptor()) {
    return VisitTime(message);
  }
  const Reflection& reflection = *message->GetReflection();
  if (!reflection.GetUnknownFields(*message).empty()) {
    reflection.MutableUnknownFields(message)->Clear();
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    path_.push_back(field);
    RETURN_IF_ERROR(VisitField(message, field));
    path_.pop_back();
  }
  return absl::OkStatus();
}

absl::Status Walk::VisitField(Message* message, const FieldDescriptor* field) {
  if (!field->is_repeated()) return VisitOne(message, field, -1);
  const Reflection& reflection = *message->GetReflection();
  int size = reflection.FieldSize(*message, field);
  const int64_t most = RuleOf(field).count;
  if (size > most) {
    RETURN_IF_ERROR(Fault(absl::StrCat(size, " entries"), absl::StrCat("at most ", most)));
    for (; size > most; --size) reflection.RemoveLast(message, field);
  }
  const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ||
                      field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  for (int i = 0; nested && i < size; ++i) RETURN_IF_ERROR(VisitOne(message, field, i));
  return absl::OkStatus();
}

absl::Status Walk::VisitOne(Message* message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Visit(index < 0 ? reflection.MutableMessage(message, field)
                             : reflection.MutableRepeatedMessage(message, field, index));
    case FieldDescriptor::CPPTYPE_STRING:
      return VisitText(message, field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double found = reflection.GetDouble(*message, field);
      constexpr double kMost = 1e30;
      if (RuleOf(field).result || (std::isfinite(found) && std::abs(found) <= kMost)) break;
      RETURN_IF_ERROR(Fault(absl::StrCat(found), absl::StrCat("a magnitude of at most ", kMost)));
      reflection.SetDouble(message, field, 0);
      break;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const int64_t found = reflection.GetInt64(*message, field);
      constexpr int64_t kMost = int64_t{1} << 60;
      if (found >= -1 && found <= kMost) break;
      RETURN_IF_ERROR(Fault(absl::StrCat(found), absl::StrCat("-1 to ", kMost)));
      reflection.SetInt64(message, field, 0);
      break;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int found = reflection.GetEnumValue(*message, field);
      if (field->enum_type()->FindValueByNumber(found) != nullptr) break;
      RETURN_IF_ERROR(
          Fault(absl::StrCat(found), absl::StrCat("a value of ", field->enum_type()->name())));
      reflection.SetEnumValue(message, field, 0);
      break;
    }
    default:  // int32 and bool: no value of them harms
      break;
  }
  return absl::OkStatus();
}

absl::Status Walk::VisitText(Message* message, const FieldDescriptor* field, int index) {
  const Reflection& reflection = *message->GetReflection();
  std::string scratch;
  const std::string& text =
      index < 0 ? reflection.GetStringReference(*message, field, &scratch)
                : reflection.GetRepeatedStringReference(*message, field, index, &scratch);
  const Rule& rule = RuleOf(field);
  const bool is_text = field->type() == FieldDescriptor::TYPE_STRING;
  const bool fits = static_cast<int64_t>(text.size()) <= rule.bytes;
  const bool printable = !is_text || IsPrintable(text);
  if (fits && printable) return absl::OkStatus();
  if (!fits) {
    RETURN_IF_ERROR(
        Fault(absl::StrCat(text.size(), " bytes"), absl::StrCat("at most ", rule.bytes)));
  } else if (!rule.prose) {
    RETURN_IF_ERROR(
        Fault(absl::StrCat("\"", Escaped(Prefix(text, 80)), "\""), "printable characters"));
  }
  // Escaping may double a text and more. What a daemon fits is admitted as it is.
  std::string mended = is_text ? Escaped(text) : text;
  if (fit_) mended = std::string(Prefix(mended, rule.bytes));
  if (index < 0) {
    reflection.SetString(message, field, std::move(mended));
  } else {
    reflection.SetRepeatedString(message, field, index, std::move(mended));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AdmitWorkerMessage(v1alpha1::WorkerMessage* message) {
  return Walk(/*fit=*/false).Visit(message);
}

absl::Status FitWorkerMessage(v1alpha1::WorkerMessage* message) {
  Walk walk(/*fit=*/true);
  (void)walk.Visit(message);
  return walk.fault();
}

}  // namespace stretto

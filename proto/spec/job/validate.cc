// SPDX-License-Identifier: Apache-2.0

// Applies the rules of the table field by field, and then the rules that connect fields.
#include "proto/spec/job/validate.h"

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/nearest_name.h"
#include "proto/spec/fields.h"
#include "proto/spec/job/layouts.h"
#include "proto/spec/job/places.h"
#include "proto/spec/job/rules.h"
#include "proto/spec/job/takers.h"

namespace stretto::spec {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using v1alpha1::JobSpec;

// "PRECISION_F32 or PRECISION_BF16"
std::string NamesOf(const EnumDescriptor& type) {
  std::string names;
  for (int i = 1; i < type.value_count(); ++i) {
    const char* before = i == 1 ? "" : i + 1 == type.value_count() ? " or " : ", ";
    absl::StrAppend(&names, before, type.value(i)->name());
  }
  return names;
}

std::string Expected(const Field& field, double found) {
  if (!std::isfinite(found)) return "a finite number";
  const std::string range = field.range.Text();
  const char* before = absl::StrContains(range, " to ")   ? "a number from "
                       : absl::StartsWith(range, "above") ? "a number "
                                                          : "";
  return absl::StrCat(before, range, field.why[0] == '\0' ? "" : ": ", field.why);
}

void CheckPlace(const Field& field, const Place& place, Violations* violations) {
  // The field that it derives from is itself at fault.
  if (!place.given() && field.derived[0] != '\0' && field.required[0] == '\0') return;
  if (place.field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const EnumDescriptor& type = *place.field->enum_type();
    const int value = place.enum_value();
    violations->Expect(value != 0 && type.FindValueByNumber(value) != nullptr, place.path, value,
                       NamesOf(type));
  } else if (field.values != nullptr) {
    CheckName(field.path, place.text(), violations);
  } else if (place.is_number() && field.range.bounded()) {
    violations->Expect(field.range.Contains(place.number()), place.path, place.text(),
                       Expected(field, place.number()));
  }
}

void CheckField(const Field& field, const JobSpec& spec, Violations* violations) {
  if (!violations->Sound({field.path})) return;
  const std::optional<bool> takes = Takes(field.taker, spec);
  if (!takes) return;
  for (const Place& place : PlacesOf(spec, field.path)) {
    if (*takes) {
      CheckPlace(field, place, violations);
    } else {
      const bool text = place.field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      violations->Expect(!place.given(), place.path, text ? Quoted(place.text()) : place.text(),
                         absl::StrCat("nothing, because ", ReasonAgainst(field.taker, spec)));
    }
  }
}

}  // namespace

bool CheckName(absl::string_view path, absl::string_view found, Violations* violations) {
  std::vector<std::string> names;
  for (const ValueText& value : FindField(path)->values()) {
    if (value.name == found) return true;
    names.push_back(value.name);
  }
  const std::string near = NearestName(found, names);
  return violations->Expect(
      false, path, Quoted(found),
      absl::StrCat("one of ", absl::StrJoin(names, ", "),
                   near.empty() ? "" : absl::StrCat("; did you mean \"", near, "\"?")));
}

std::vector<FieldViolation> ViolationsOf(const JobSpec& spec) {
  Violations violations;
  CheckPreset(spec.model(), &violations);
  for (const Field& field : JobFields()) CheckField(field, spec, &violations);
  CheckModel(spec.model(), &violations);
  CheckParallelism(spec, &violations);
  CheckBatch(spec, &violations);
  CheckSchedule(spec, &violations);
  CheckTraining(spec, &violations);
  CheckData(spec, &violations);
  CheckDevice(spec, &violations);
  CheckLabels(spec, &violations);
  if (violations.list().empty()) CheckLayouts(spec, &violations);
  return violations.list();
}

absl::Status Validate(const JobSpec& normalized) {
  const std::vector<FieldViolation> violations = ViolationsOf(normalized);
  if (violations.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(MessageOf(violations));
}

}  // namespace stretto::spec

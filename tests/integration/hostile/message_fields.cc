// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/hostile/message_fields.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stretto::integration {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void Collect(const Descriptor& type, const FieldPath& before, std::vector<FieldPath>* fields) {
  for (int i = 0; i < type.field_count(); ++i) {
    FieldPath path = before;
    path.push_back(type.field(i));
    fields->push_back(path);
    const Descriptor* inner = type.field(i)->message_type();
    const bool again =
        inner == nullptr || std::any_of(before.begin(), before.end(), [inner](const auto* field) {
          return field->message_type() == inner;
        });
    if (!again && !type.field(i)->is_map()) Collect(*inner, path, fields);
  }
}

template <class T>
T Clamped(double number) {
  using Limits = std::numeric_limits<T>;
  if (!(number > static_cast<double>(Limits::min()))) return Limits::min();  // also of NaN
  if (number >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(number);
}

std::string Joined(const FieldPath& path, const char* separator) {
  return absl::StrJoin(path, separator, [](std::string* out, const FieldDescriptor* field) {
    absl::StrAppend(out, std::string(field->name()));
  });
}

}  // namespace

std::string TextOf(const FieldPath& path) { return Joined(path, "."); }
std::string TestName(const FieldPath& path) { return Joined(path, "_"); }

std::vector<FieldPath> FieldsOf(const Descriptor& type) {
  std::vector<FieldPath> fields;
  Collect(type, {}, &fields);
  return fields;
}

Message* HolderOf(Message* root, const FieldPath& path) {
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const auto* reflection = root->GetReflection();
    root = path[i]->is_repeated() ? reflection->AddMessage(root, path[i])
                                  : reflection->MutableMessage(root, path[i]);
  }
  return root;
}

void SetText(Message* root, const FieldPath& path, const std::string& text) {
  Message* holder = HolderOf(root, path);
  if (path.back()->is_repeated()) {
    holder->GetReflection()->AddString(holder, path.back(), text);
  } else {
    holder->GetReflection()->SetString(holder, path.back(), text);
  }
}

void SetNumber(Message* root, const FieldPath& path, double number) {
  Message* holder = HolderOf(root, path);
  const auto* r = holder->GetReflection();
  const FieldDescriptor* field = path.back();
  const bool add = field->is_repeated();
  switch (field->cpp_type()) {
#define STRETTO_SET(KIND, NAME, VALUE)                                             \
  case FieldDescriptor::CPPTYPE_##KIND:                                            \
    add ? r->Add##NAME(holder, field, VALUE) : r->Set##NAME(holder, field, VALUE); \
    break
    STRETTO_SET(INT32, Int32, Clamped<int32_t>(number));
    STRETTO_SET(INT64, Int64, Clamped<int64_t>(number));
    STRETTO_SET(UINT32, UInt32, Clamped<uint32_t>(number));
    STRETTO_SET(UINT64, UInt64, Clamped<uint64_t>(number));
    STRETTO_SET(DOUBLE, Double, number);
    STRETTO_SET(FLOAT, Float, static_cast<float>(number));
    STRETTO_SET(BOOL, Bool, number > 0);
    STRETTO_SET(ENUM, EnumValue, Clamped<int32_t>(number));
#undef STRETTO_SET
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
}

}  // namespace stretto::integration

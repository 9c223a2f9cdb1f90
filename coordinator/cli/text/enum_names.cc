// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/enum_names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace stretto::cli {
namespace {

std::string UpperSnake(absl::string_view camel) {
  std::string out;
  for (size_t i = 0; i < camel.size(); ++i) {
    if (i > 0 && absl::ascii_isupper(camel[i]) && !absl::ascii_isupper(camel[i - 1])) out += '_';
    out += absl::ascii_toupper(camel[i]);
  }
  return out;
}

}  // namespace

std::string ShortName(const google::protobuf::EnumValueDescriptor& value) {
  absl::string_view name = value.name();
  const std::string prefix = UpperSnake(value.type()->name()) + "_";
  if (absl::StartsWith(name, prefix)) name.remove_prefix(prefix.size());
  return absl::AsciiStrToLower(name);
}

std::vector<std::string> AcceptedNames(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) names.push_back(ShortName(*type.value(i)));
  }
  return names;
}

}  // namespace stretto::cli

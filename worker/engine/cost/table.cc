// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/printable.h"
#include "worker/engine/cost/contention.h"
#include "worker/engine/program/op_kind.h"

namespace stretto {
namespace {

// Whether an attribute changes the duration of an operation; the others only select its data.
bool ShapesTime(absl::string_view attribute) {
  return attribute == "sequence" || attribute == "heads" || attribute == "kv_heads" ||
         attribute == "head_dim" || attribute == "wire";
}

// An OperationKey begins with the kind of its operation, and a TagKey ends with it.
bool IsOfProduct(absl::string_view key) {
  const size_t first = key.find(' '), last = key.rfind(' ');
  if (first == absl::string_view::npos) return false;
  for (absl::string_view word : {key.substr(0, first), key.substr(last + 1)}) {
    const OpInfo* info = FindOp(word);
    if (info == nullptr || IsCollective(info->kind)) continue;
    if (ClassOf(info->kind) == ComputeClass::kProduct) return true;
  }
  return false;
}

absl::Status TableError(int line, absl::string_view found, absl::string_view expected) {
  constexpr size_t kMostShown = 200;  // bytes
  return absl::InvalidArgumentError(absl::StrCat("cost table line ", line, ": found '",
                                                 Escaped(Prefix(found, kMostShown)), "', expected ",
                                                 expected));
}

}  // namespace

std::string OperationKey(const Program& program, const Op& op) {
  const OpInfo& info = InfoOf(op.kind);
  std::string key = info.name;
  auto add = [&](const BufferList& ids) {
    for (BufferId id : ids) {
      const Buffer& buffer = program.buffers.at(id);
      absl::StrAppend(&key, " ", NameOf(buffer.dtype), "[", absl::StrJoin(buffer.shape, ","), "]");
    }
  };
  add(op.in);
  absl::StrAppend(&key, " >");
  add(op.out);
  for (size_t i = 0; i < info.attributes.size(); ++i) {
    const absl::string_view name = info.attributes[i];
    if (ShapesTime(name)) absl::StrAppend(&key, " ", name, "=", op.attributes.at(i));
    if (name == "drop" && op.attributes.at(i) > 0) absl::StrAppend(&key, " drop");
  }
  if (IsCollective(op.kind)) {
    absl::StrAppend(&key, " ranks=", program.groups.at(op.group).ranks.size());
  }
  return key;
}

std::string TagKey(const Op& op) {
  return absl::StrCat(NameOf(op.tag.phase), " ", op.tag.name, " ", InfoOf(op.kind).name);
}

absl::StatusOr<CostTable> CostTable::Parse(absl::string_view text) {
  CostTable table;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const size_t space = line.rfind(' ');
    double seconds;
    if (space == absl::string_view::npos || !absl::SimpleAtod(line.substr(space + 1), &seconds) ||
        !std::isfinite(seconds) || seconds < 0) {
      return TableError(number, line, "'KEY SECONDS', seconds finite and at least 0");
    }
    const absl::string_view key = absl::StripTrailingAsciiWhitespace(line.substr(0, space));
    if (!table.seconds_.emplace(std::string(key), seconds).second) {
      return TableError(number, key, "each key once");
    }
  }
  return table;
}

const double* CostTable::Find(const Program& program, const Op& op) const {
  if (seconds_.empty()) return nullptr;
  auto it = seconds_.find(OperationKey(program, op));
  if (it == seconds_.end()) it = seconds_.find(TagKey(op));
  return it == seconds_.end() ? nullptr : &it->second;
}

bool CostTable::HasProducts() const {
  return std::any_of(seconds_.begin(), seconds_.end(),
                     [](const auto& entry) { return IsOfProduct(entry.first); });
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/shape_check.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/ops.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/text.h"

namespace stretto {

BufferOperands OperandsOf(const Program& program, const Op& op) {
  const auto buffers = [&](const BufferList& ids) {
    std::vector<const Buffer*> result;
    for (BufferId id : ids) result.push_back(&program.buffers.at(id));
    return result;
  };
  return BufferOperands(op, buffers(op.in), buffers(op.out));
}

ShapeCheck::ShapeCheck(const Program& program, OpId op)
    : program_(program),
      index_(op),
      operands_(OperandsOf(program, program.ops.at(op))),
      symbols_({{"kKeyCount", kKeyCount},
                {"kScalarCount", kScalarCount},
                {"kClipStateCount", kClipStateCount}}) {}

absl::Status ShapeCheck::Error(absl::string_view found, absl::string_view expected) const {
  return absl::InvalidArgumentError(absl::StrCat("operation ", PrintOp(program_, index_),
                                                 ": found ", found, ", expected ", expected));
}

int64_t ShapeCheck::Rows(absl::string_view operand) const {
  const int64_t columns = Columns(operand);
  return columns == 0 ? 0 : Count(operand) / columns;
}

const Group* ShapeCheck::group() const {
  const GroupId group = program_.ops[index_].group;
  return group < 0 ? nullptr : &program_.groups[group];
}

void ShapeCheck::Define(absl::string_view symbol, int64_t value) {
  symbols_.insert_or_assign(std::string(symbol), value);
}

std::optional<int64_t> ShapeCheck::ValueOf(absl::string_view symbol) const {
  int64_t number;
  if (absl::SimpleAtoi(symbol, &number)) return number;
  const auto defined = symbols_.find(std::string(symbol));
  if (defined != symbols_.end()) return defined->second;
  if (attributes().Has(symbol)) return attributes()[symbol];
  return std::nullopt;
}

int64_t ShapeCheck::ExtentOf(absl::string_view extent, int64_t actual) {
  int64_t factor = 1;
  if (const size_t star = extent.find('*'); star != absl::string_view::npos) {
    STRETTO_CHECK(absl::SimpleAtoi(extent.substr(0, star), &factor) && factor > 0);
    extent.remove_prefix(star + 1);
  }
  if (!ValueOf(extent).has_value()) Define(extent, actual / factor);
  return factor * *ValueOf(extent);
}

DType ShapeCheck::TypeOf(absl::string_view type, const Buffer& operand) {
  if (type == "f32") return DType::kF32;
  if (type == "i32") return DType::kI32;
  STRETTO_CHECK(type == "T");
  if (!type_.has_value()) type_ = operand.dtype;
  return *type_;
}

absl::Status ShapeCheck::MatchOperand(absl::string_view entry) {
  const size_t colon = entry.find(':'), open = entry.find_first_of("[{(");
  STRETTO_CHECK(colon < open && open < entry.size() - 1);
  const absl::string_view name = entry.substr(0, colon);
  const Buffer* const* found = operands_.Find(name);
  if (found == nullptr) return absl::OkStatus();
  const Buffer& buffer = **found;
  const DType type = TypeOf(entry.substr(colon + 1, open - colon - 1), buffer);
  const absl::string_view extents = entry.substr(open + 1, entry.size() - open - 2);
  const std::string head = absl::StrCat(name, " ", NameOf(buffer.dtype));
  if (entry[open] == '(') {
    const int64_t count = ExtentOf(extents, buffer.count());
    if (buffer.count() == count && buffer.dtype == type) return absl::OkStatus();
    return Error(absl::StrCat(head, " of ", buffer.count(), " elements"),
                 absl::StrCat(NameOf(type), " of ", count));
  }
  const std::pair<absl::string_view, absl::string_view> sides = absl::StrSplit(extents, ',');
  const int64_t rows = ExtentOf(sides.first, Rows(name));
  const int64_t columns = ExtentOf(sides.second, Columns(name));
  const bool pieces = entry[open] == '{' && buffer.shape.size() == 3;
  const bool fits = pieces ? buffer.shape[0] * buffer.shape[2] == columns && buffer.shape[1] == rows
                           : Rows(name) == rows && Columns(name) == columns;
  if (fits && buffer.dtype == type) return absl::OkStatus();
  return Error(absl::StrCat(head, " [", absl::StrJoin(buffer.shape, ","), "]"),
               absl::StrCat(NameOf(type), " of ", rows, " rows x ", columns, " columns",
                            pieces ? " in pieces" : ""));
}

absl::Status ShapeCheck::Match(absl::string_view rule) {
  for (absl::string_view entry : absl::StrSplit(rule, ' ', absl::SkipEmpty()))
    RETURN_IF_ERROR(MatchOperand(entry));
  return absl::OkStatus();
}

}  // namespace stretto

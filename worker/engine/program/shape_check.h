// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the shapes of an operation against the rule of its row:
//
//   "x:T[n,k] y:T[n,c] w:T[c,k] bias:T(c)"
//
// The rule gives each operand a type and extents. [n,k] means n rows of k columns, where the rows
// are all dimensions except the last. {n,k} means the same, or k columns in pieces that are stored
// one after the other. (c) means c elements in any shape. A type is f32, i32 or T; the first
// operand of type T fixes T. An extent is a number, a symbol, or number*symbol. The value of a
// symbol is its definition, an attribute of the operation or a constant of kernels/ops.h; otherwise
// the first operand that uses the symbol fixes it. Operands that are absent are skipped.

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/engine/program/operands.h"

namespace stretto {

class ShapeCheck {
 public:
  // All operands of the operation must be declared, as many as its row has. Borrows the program.
  ShapeCheck(const Program& program, OpId op);

  // Errors: InvalidArgument with found and expected. CHECKs that the rule is well-formed.
  absl::Status Match(absl::string_view rule);
  void Define(absl::string_view symbol, int64_t value);

  const OpInfo& info() const { return operands_.info(); }
  const Attributes& attributes() const { return operands_.attributes(); }
  const Buffer& Operand(absl::string_view name) const { return *operands_[name]; }
  int64_t Count(absl::string_view operand) const { return operands_[operand]->count(); }
  int64_t Columns(absl::string_view operand) const { return operands_[operand]->shape.back(); }
  int64_t Rows(absl::string_view operand) const;
  const Group* group() const;  // of the operation; null when it has none
  absl::Status Error(absl::string_view found, absl::string_view expected) const;

 private:
  absl::Status MatchOperand(absl::string_view entry);
  DType TypeOf(absl::string_view type, const Buffer& operand);
  // Returns the value of an extent. An extent that nothing has fixed yet becomes `actual`.
  int64_t ExtentOf(absl::string_view extent, int64_t actual);
  std::optional<int64_t> ValueOf(absl::string_view symbol) const;

  const Program& program_;
  const OpId index_;
  const BufferOperands operands_;
  std::map<std::string, int64_t, std::less<>> symbols_;
  std::optional<DType> type_;
};

}  // namespace stretto

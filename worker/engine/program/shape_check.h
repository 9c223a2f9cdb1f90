// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shapes that an operation takes, as its row states them:
//
//   "x:T[n,k] y:T[n,c] w:T[c,k] bias:T(c)"
//
// names each operand with its type and extents. [n,k]: n rows of k columns, where the rows are all
// dimensions but the last. {n,k}: the same, or in column pieces that lie one after the other.
// (c): c elements in any shape. A type is f32, i32 or T, which the first T of the rule fixes. An
// extent is a number, a symbol, or number*symbol. A symbol is a defined one, an attribute of the
// operation or a constant of kernels/ops.h; else the first operand that has it fixes it. An operand
// that is absent is skipped.

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/engine/program/operands.h"

namespace stretto {

class ShapeCheck {
 public:
  // Of an operation whose operands are all declared, as many as its row has. Borrows the program.
  ShapeCheck(const Program& program, OpId op);

  // InvalidArgument with found and expected. A malformed rule is a CHECK.
  absl::Status Match(absl::string_view rule);
  void Define(absl::string_view symbol, int64_t value);

  const OpInfo& info() const { return operands_.info(); }
  const Attributes& attributes() const { return operands_.attributes(); }
  int64_t Count(absl::string_view operand) const { return operands_[operand]->count(); }
  int64_t Columns(absl::string_view operand) const { return operands_[operand]->shape.back(); }
  int64_t Rows(absl::string_view operand) const;
  const Lane& lane() const;
  const Group* group() const;  // of the lane; null when it has none
  absl::Status Error(absl::string_view found, absl::string_view expected) const;

 private:
  absl::Status MatchOperand(absl::string_view entry);
  DType TypeOf(absl::string_view type, const Buffer& operand);
  // The value of an extent; one that nothing fixes yet is `actual` from here on.
  int64_t ExtentOf(absl::string_view extent, int64_t actual);
  std::optional<int64_t> ValueOf(absl::string_view symbol) const;

  const Program& program_;
  const OpId index_;
  const BufferOperands operands_;
  std::map<std::string, int64_t, std::less<>> symbols_;
  std::optional<DType> type_;
};

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that the rows of operations.inc share: attributes as the kernels take them, checks that
// shape rules cannot express, and the work of operations that do more than move their operands.

#include "absl/status/status.h"
#include "kernels/ops.h"
#include "worker/engine/program/operands.h"
#include "worker/engine/program/shape_check.h"

namespace stretto {

VocabShard VocabOf(const Attributes& at);
AttentionShape AttentionOf(const Attributes& at);
Dropout DropoutOf(const Attributes& at);
RotarySpeed SpeedOf(const Attributes& at);
BoxCopy BoxOf(const Attributes& at);
inline auto Number(const char* name) {
  return [name](const Attributes& at) { return at[name]; };
}
// A real number, which is `otherwise` where the attribute is 0.
inline auto Real(const char* name, float otherwise) {
  return [=](const Attributes& at) {
    const double value = at.Real(name);
    return value == 0 ? otherwise : static_cast<float>(value);
  };
}
inline auto Flag(const char* name) {
  return [name](const Attributes& at) { return at[name] != 0; };
}

// Checks that the columns of the piece end within those of w.
absl::Status CheckColumns(ShapeCheck& at);
absl::Status CheckEpsilon(ShapeCheck& at);
// Checks that a box is not empty and inside both tensors, and that it is all of y where y is an
// activation: what reads it later would find the rest undefined.
absl::Status CheckBox(ShapeCheck& at);
// Checks that rows are whole sequences, that query heads share key heads evenly, and the shape of
// qkv. Defines the symbols "qkv" and "context", which are columns, and "scratch", in elements.
absl::Status CheckAttention(ShapeCheck& at);
absl::Status CheckRotary(ShapeCheck& at);
// Checks that the lane has a group, that the wire type is known, and that the larger operand
// divides evenly over the ranks. Defines "part", the elements of the other operand.
absl::Status CheckCollective(ShapeCheck& at);

// Bytes, elements and columns of a buffer as real numbers; bytes of an element; elements of a box.
double Bytes(const Buffer* buffer);
double Elements(const Buffer* buffer);
double Columns(const Buffer* buffer);
double ElementBytes(const Buffer* buffer);
double BoxElements(const Attributes& at);
// Returns the multiply-adds of one causal product of queries with keys, or of probabilities with
// values. `context` is the context or its gradient, [tokens, heads * head_dim].
double CausalProduct(const Attributes& at, const Buffer* context);
// Returns the share of qkv that rotary reads and writes: the queries and keys.
double RotaryShare(const Attributes& at);

}  // namespace stretto

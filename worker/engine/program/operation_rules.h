// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the rows of operations.inc share: attributes as the kernels take them, checks of what shapes
// cannot say, and the work of operations that do more than move their operands.

#include "absl/status/status.h"
#include "kernels/ops.h"
#include "worker/engine/program/operands.h"
#include "worker/engine/program/shape_check.h"

namespace stretto {

VocabShard VocabOf(const Attributes& at);
AttentionShape AttentionOf(const Attributes& at);
Dropout DropoutOf(const Attributes& at);
float EpsilonOf(const Attributes& at);
RotarySpeed SpeedOf(const Attributes& at);
inline auto Number(const char* name) {
  return [name](const Attributes& at) { return at[name]; };
}
inline auto Flag(const char* name) {
  return [name](const Attributes& at) { return at[name] != 0; };
}

// The piece of w's columns ends within it.
absl::Status CheckColumns(ShapeCheck& at);
absl::Status CheckEpsilon(ShapeCheck& at);
// Whole sequences of heads that share keys evenly; checks qkv. Defines the columns "qkv" and
// "context", and "scratch".
absl::Status CheckAttention(ShapeCheck& at);
absl::Status CheckRotary(ShapeCheck& at);
// The lane has a group, the wire a type; the larger operand has a part for each rank. Defines
// "part", the elements of the other.
absl::Status CheckCollective(ShapeCheck& at);

// Bytes and elements as real numbers.
double Bytes(const Buffer* buffer);
double Elements(const Buffer* buffer);
double Columns(const Buffer* buffer);
// Multiply-adds of one product of queries with keys, or of probabilities with values. `context`:
// the context, or its gradient: [tokens, heads * head_dim].
double CausalProduct(const Attributes& at, const Buffer* context);
// Queries and keys: what rotary reads and writes of qkv.
double RotaryShare(const Attributes& at);

}  // namespace stretto

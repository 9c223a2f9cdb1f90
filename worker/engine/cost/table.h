// SPDX-License-Identifier: Apache-2.0
#pragma once
// Known durations of operations: measured ones by what is computed, or a model's by tag.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Operations with this key take the same time: kind, operands by type and shape, and, for
// attention and rotary, sequence and heads; "drop" where dropout is on; for a collective, the type
// on the wire and the number of ranks.
//   gemm f32[1024,384] f32[1152,384] f32[1152] > f32[1024,1152]
std::string OperationKey(const Program& program, const Op& op);

// What the operation is to the model, whatever its shape: phase, tag's name and kind.
//   fwd fc1 gemm
std::string TagKey(const Op& op);

// Seconds by either key; an operation's own key is looked up first. A plain value.
class CostTable {
 public:
  // One "KEY SECONDS" a line; '#' starts a comment. InvalidArgument with the line number, found and
  // expected: no finite number of at least 0 at the end, or a key that comes twice.
  static absl::StatusOr<CostTable> Parse(absl::string_view text);

  void Set(std::string key, double seconds) { seconds_[std::move(key)] = seconds; }
  // Null when the table does not know the operation. Valid until the table changes.
  const double* Find(const Program& program, const Op& op) const;
  bool empty() const { return seconds_.empty(); }

 private:
  std::map<std::string, double> seconds_;
};

}  // namespace stretto

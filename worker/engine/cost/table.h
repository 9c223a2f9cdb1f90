// SPDX-License-Identifier: Apache-2.0
#pragma once
// Known durations of operations: measured, by what is computed; or of a model, by tag.

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Returns a key that operations of equal duration share: kind, operands by type and shape, and, for
// attention and rotary, sequence and heads; "drop" when dropout is on; for a collective, the type
// on the wire and the number of ranks.
//   gemm f32[1024,384] f32[1152,384] f32[1152] > f32[1024,1152]
std::string OperationKey(const Program& program, const Op& op);

// Returns a key for the operation's role in the model, whatever its shape: phase, name of the tag,
// and kind.
//   fwd fc1 gemm
std::string TagKey(const Op& op);

// Seconds by either key; OperationKey takes precedence over TagKey. A plain value.
class CostTable {
 public:
  // Parses one "KEY SECONDS" per line; '#' starts a comment. Errors: InvalidArgument with the line
  // number, found and expected, when a line does not end in a finite number of at least 0 or when a
  // key is repeated.
  static absl::StatusOr<CostTable> Parse(absl::string_view text);

  void Set(std::string key, double seconds) { seconds_[std::move(key)] = seconds; }
  // Returns null when the table does not have the operation. Valid until the table changes.
  const double* Find(const Program& program, const Op& op) const;
  bool empty() const { return seconds_.empty(); }
  // Whether a key of either form is of a matrix product.
  bool HasProducts() const;

 private:
  std::map<std::string, double> seconds_;
};

}  // namespace stretto

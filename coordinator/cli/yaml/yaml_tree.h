// SPDX-License-Identifier: Apache-2.0
#pragma once
// YAML text as a tree with the position of every node. It accepts a subset of YAML: one document,
// UTF-8, no tabs in indentation, no anchors, aliases or explicit tags, scalar keys only.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto::cli {

// 1-based; columns count bytes.
struct SourcePosition {
  int line = 1;
  int column = 1;
};

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMapping };

  Kind kind = Kind::kNull;
  SourcePosition position = {};
  std::string text = {};              // of a scalar
  bool quoted = false;                // of a scalar: it is a string whatever its text
  std::vector<YamlNode> keys = {};    // of a mapping: scalars, parallel to values; may repeat
  std::vector<YamlNode> values = {};  // of a mapping or sequence
};

// InvalidArgument "FILE:LINE:COLUMN: message"; without position if its line is 0.
absl::Status ErrorAt(absl::string_view file, SourcePosition position, absl::string_view message);

// Errors: as above. `file` is used only in errors.
absl::StatusOr<YamlNode> ParseYaml(const std::string& text, const std::string& file);

}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
// YAML text as a tree that has the position of every node. Accepts less than YAML: one document,
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
  bool quoted = false;                // a scalar that is a string even if it looks like none
  std::vector<YamlNode> keys = {};    // of a mapping: scalars, parallel to values; may repeat
  std::vector<YamlNode> values = {};  // of a mapping or sequence
};

// InvalidArgument "FILE:LINE:COLUMN: message".
absl::Status ErrorAt(absl::string_view file, SourcePosition position, absl::string_view message);

// InvalidArgument as above. `file` only names the text in errors.
absl::StatusOr<YamlNode> ParseYaml(const std::string& text, const std::string& file);

}  // namespace stretto::cli

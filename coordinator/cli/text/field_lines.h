// SPDX-License-Identifier: Apache-2.0
#pragma once
// "Key:   value" lines, values in one column.

#include <string>

#include "absl/strings/str_format.h"
#include "proto/base/printable.h"

namespace stretto::cli {

// One thread.
class FieldLines {
 public:
  void Add(const std::string& key, const std::string& value) {
    absl::StrAppendFormat(&text_, "%-12s %s\n", key + ":", Escaped(value));
  }
  // For text that contains our own colours.
  void AddRaw(const std::string& key, const std::string& value) {
    absl::StrAppendFormat(&text_, "%-12s %s\n", key + ":", value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace stretto::cli

// SPDX-License-Identifier: Apache-2.0
#pragma once
// A field's documentation for a terminal and for programs. Pure.

#include <string>

#include "coordinator/cli/explain/explain.h"

namespace stretto::cli {

// As `kubectl explain` lays it out, wrapped at `width` columns. `recursive`: the tree of all fields
// below instead of the descriptions of the next ones.
std::string ExplainText(const FieldDoc& doc, bool recursive, int width);

// An object {path, type, required, default, range, only_for, description, values, examples, fields};
// what a field does not have is left out. `recursive`: fields of fields too.
std::string ExplainJson(const FieldDoc& doc, bool recursive);
std::string ExplainYaml(const FieldDoc& doc, bool recursive);

// The words of `text` in lines of at most `width` columns, each after `indent` blanks.
std::string Wrapped(const std::string& text, int indent, int width);

}  // namespace stretto::cli

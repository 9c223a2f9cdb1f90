// SPDX-License-Identifier: Apache-2.0
#pragma once
// A field's documentation as text for a terminal and for programs. Pure.

#include <string>

#include "coordinator/cli/explain/explain.h"
#include "proto/document/document.h"

namespace stretto::cli {

// Uses the layout of `kubectl explain`, wrapped at `width` columns. `recursive` prints the tree of
// all fields below instead of descriptions of the direct ones.
std::string ExplainText(const FieldDoc& doc, bool recursive, int width);

// An object {path, type, required, default, range, only_for, description, values, examples, fields}
// without the parts that a field lacks. `recursive` includes fields of fields.
Document ExplainDocument(const FieldDoc& doc, bool recursive);

// Wraps `text` into lines of at most `width` columns, each indented by `indent` blanks.
std::string Wrapped(const std::string& text, int indent, int width);

}  // namespace stretto::cli

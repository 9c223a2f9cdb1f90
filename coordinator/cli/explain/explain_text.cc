// SPDX-License-Identifier: Apache-2.0

// Lays out a field's documentation: wrapped paragraphs, its values, and its fields or the whole
// tree below; or returns the same tree as a document.

#include "coordinator/cli/explain/explain_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace stretto::cli {
namespace {

constexpr int kWidest = 100;

std::string Blanks(size_t count) { return std::string(count, ' '); }

std::string Indented(const std::string& lines, int indent) {
  std::string out;
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&out, Blanks(indent), line, "\n");
  }
  return out;
}

// Joins all paragraphs with blank lines.
std::string Body(const Comment& comment, int indent, int width) {
  std::vector<std::string> parts;
  for (const Comment::Block& block : comment.blocks) {
    parts.push_back(block.verbatim ? Indented(block.text, indent + 2)
                                   : Wrapped(block.text, indent, width));
  }
  std::string facts;
  const auto add = [&](const char* name, const std::string& fact) {
    if (!fact.empty()) facts += Wrapped(absl::StrCat(name, ": ", fact), indent, width);
  };
  add("Range", comment.range);
  add("Only for", comment.only_for);
  add("Default", comment.default_value);
  if (!parts.empty() && !comment.blocks.back().verbatim) {
    parts.back() += facts;  // they end the last paragraph
  } else if (!facts.empty()) {
    parts.push_back(facts);
  }
  return absl::StrJoin(parts, "\n");
}

std::string Heading(const FieldDoc& doc) {
  return absl::StrCat(doc.name(), "  <", doc.type, ">", doc.comment.required ? "  required" : "");
}

std::string Values(const FieldDoc& doc, int indent, int width) {
  size_t widest = 0;
  for (const ValueDoc& value : doc.values) widest = std::max(widest, value.name.size());
  std::string out;
  for (const ValueDoc& value : doc.values) {
    const std::string gap = Blanks(widest - value.name.size() + 2);
    const int hang = indent + widest + 2;
    const std::string text = Wrapped(value.help, hang, width);
    absl::StrAppend(&out, Blanks(indent), value.name,
                    value.help.empty() ? "\n" : gap + text.substr(hang));
  }
  return out;
}

std::string Names(const FieldDoc& doc) {
  return absl::StrJoin(doc.values, ", ",
                       [](std::string* out, const ValueDoc& value) { out->append(value.name); });
}

std::string Fields(const FieldDoc& doc, int width) {
  std::vector<std::string> parts;
  for (const FieldDoc& field : doc.fields) {
    std::string part = absl::StrCat("  ", Heading(field), "\n", Body(field.comment, 4, width));
    if (!field.values.empty()) {
      absl::StrAppend(&part, Wrapped(absl::StrCat("One of: ", Names(field)), 4, width));
    }
    parts.push_back(std::move(part));
  }
  return absl::StrJoin(parts, "\n");
}

std::string Tree(const FieldDoc& doc, int indent) {
  std::string out;
  for (const FieldDoc& field : doc.fields) {
    absl::StrAppend(&out, Blanks(indent), Heading(field),
                    field.values.empty() ? "" : absl::StrCat("  ", Names(field)), "\n",
                    Tree(field, indent + 2));
  }
  return out;
}

std::string Plain(const Comment& comment) {
  return absl::StrJoin(comment.blocks, "\n\n", [](std::string* out, const Comment::Block& block) {
    out->append(block.text);
  });
}

Document ToTree(const FieldDoc& doc, bool fields, bool recursive) {
  Document tree = {{"path", doc.path}, {"type", doc.type}};
  if (doc.comment.required) tree["required"] = true;
  if (!doc.comment.default_value.empty()) tree["default"] = doc.comment.default_value;
  if (!doc.comment.range.empty()) tree["range"] = doc.comment.range;
  if (!doc.comment.only_for.empty()) tree["only_for"] = doc.comment.only_for;
  std::vector<std::string> texts = {Plain(doc.comment), Plain(doc.about)};
  texts.erase(std::remove(texts.begin(), texts.end(), ""), texts.end());
  tree["description"] = absl::StrJoin(texts, "\n\n");
  for (const ValueDoc& value : doc.values) {
    tree["values"].push_back({{"name", value.name}, {"description", value.help}});
  }
  for (const Comment* comment : {&doc.comment, &doc.about}) {
    for (const std::string& example : comment->examples) tree["examples"].push_back(example);
  }
  if (!fields) return tree;
  for (const FieldDoc& field : doc.fields) {
    tree["fields"].push_back(ToTree(field, recursive, recursive));
  }
  return tree;
}

}  // namespace

std::string Wrapped(const std::string& text, int indent, int width) {
  std::string out, line;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    const bool full = std::cmp_greater(indent + line.size() + 1 + word.size(), width);
    if (full && !line.empty()) {
      absl::StrAppend(&out, Blanks(indent), line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  return absl::StrCat(out, Blanks(indent), line, "\n");
}

std::string ExplainText(const FieldDoc& doc, bool recursive, int width) {
  width = std::min(width, kWidest);
  const bool root = doc.path.find('.') == std::string::npos;
  std::string out = absl::StrCat(root ? "KIND:   " : "FIELD:  ", doc.path, "  <", doc.type, ">",
                                 doc.comment.required ? "  required" : "", "\n");
  const auto section = [&](const char* title, const std::string& body) {
    if (!body.empty()) absl::StrAppend(&out, "\n", title, ":\n", body);
  };
  std::vector<std::string> texts = {Body(doc.comment, 2, width), Body(doc.about, 2, width)};
  texts.erase(std::remove(texts.begin(), texts.end(), ""), texts.end());
  section("DESCRIPTION", absl::StrJoin(texts, "\n"));
  for (const Comment* comment : {&doc.comment, &doc.about}) {
    for (const std::string& example : comment->examples) section("EXAMPLE", Indented(example, 2));
  }
  section("VALUES", Values(doc, 2, width));
  section("FIELDS", recursive ? Tree(doc, 2) : Fields(doc, width));
  return out;
}

Document ExplainDocument(const FieldDoc& doc, bool recursive) {
  return ToTree(doc, true, recursive);
}

}  // namespace stretto::cli

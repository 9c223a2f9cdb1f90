// SPDX-License-Identifier: Apache-2.0

// Two walks over the tree, one for each syntax. Both write numbers with the same function: the
// fewest digits that read back equal, and with a point before an exponent, because YAML 1.1 takes
// 1e-05 for text.

#include "proto/document/document.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "proto/document/plain_scalar.h"

namespace stretto {
namespace {

std::string NumberText(const Document& number) {
  if (!number.is_number_float()) return number.dump();
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number.get<double>()).ptr;
  std::string text(buffer, end);
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

bool IsNotFinite(const Document& value) {
  return value.is_number_float() && !std::isfinite(value.get<double>());
}

std::string JsonScalar(const Document& value) {
  if (IsNotFinite(value)) {
    const double number = value.get<double>();
    return std::isnan(number) ? "\"NaN\"" : number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  }
  if (value.is_number()) return NumberText(value);
  // The library escapes control characters up to U+001F.
  const std::string text = value.dump(-1, ' ', false, Document::error_handler_t::replace);
  return Escaped(absl::StrReplaceAll(text, {{"\x7f", "\\u007f"}}));
}

// A list of scalars is on one line even in a pretty document.
bool IsFlat(const Document& list) {
  return std::none_of(list.begin(), list.end(),
                      [](const Document& item) { return item.is_structured(); });
}

void EmitJson(const Document& value, bool pretty, const std::string& indent, std::string* out) {
  if (!value.is_structured()) {
    *out += JsonScalar(value);
    return;
  }
  const bool object = value.is_object();
  const bool lines = pretty && !value.empty() && (object || !IsFlat(value));
  const std::string inner = indent + "  ";
  const char* comma = "";
  *out += object ? "{" : "[";
  for (const auto& [key, child] : value.items()) {
    absl::StrAppend(out, comma, lines ? "\n" + inner : "");
    if (object) absl::StrAppend(out, JsonScalar(key), pretty ? ": " : ":");
    EmitJson(child, pretty, inner, out);
    comma = pretty && !lines ? ", " : ",";
  }
  absl::StrAppend(out, lines ? "\n" + indent : "", object ? "}" : "]");
}

// Returns the text with replacements for bytes that are not UTF-8.
std::string Utf8(const std::string& text) {
  const auto is_ascii = [](char c) { return absl::ascii_isascii(c); };
  if (std::all_of(text.begin(), text.end(), is_ascii)) return text;
  return Document::parse(JsonScalar(text)).get<std::string>();
}

// Words that YAML 1.1 reads as truth values.
bool IsOldTruthValue(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return lower == "yes" || lower == "no" || lower == "on" || lower == "off" || lower == "y" ||
         lower == "n";
}

// Prints text plainly if that is unambiguous, else in double quotes. Text that begins with a digit
// may be a date or a number of another base.
std::string YamlString(const std::string& bytes) {
  const std::string text = Utf8(bytes);
  bool plain = !text.empty() && !LooksLikeNonString(text) && !IsOldTruthValue(text) &&
               (absl::ascii_isalpha(text[0]) || text[0] == '/') && text.back() != '/';
  for (const char c : text) {
    plain = plain && (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/');
  }
  if (plain) return text;
  // The escapes of printable.h are those of YAML.
  return absl::StrCat("\"", Escaped(absl::StrReplaceAll(text, {{"\"", "\\\""}, {"\\", "\\\\"}})),
                      "\"");
}

// Whether YAML reads the text back if each of its lines is indented: a literal block.
bool IsBlock(const std::string& text) {
  const bool lines = absl::StrContains(text, '\n') && text.back() == '\n' &&
                     absl::ascii_isgraph(text[0]) && text[text.size() - 2] != '\n';
  return lines && std::all_of(text.begin(), text.end(),
                              [](char c) { return c == '\n' || absl::ascii_isprint(c); });
}

std::string LiteralBlock(absl::string_view text, const std::string& indent) {
  std::string block = "|\n";
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n'))
    absl::StrAppend(&block, line.empty() ? "" : indent, line, "\n");
  return block;
}

std::string YamlScalar(const Document& value) {
  if (value.is_string()) return YamlString(value.get<std::string>());
  if (IsNotFinite(value)) {
    const double number = value.get<double>();
    return std::isnan(number) ? ".nan" : number > 0 ? ".inf" : "-.inf";
  }
  return value.is_number() ? NumberText(value) : value.dump();
}

bool IsInline(const Document& value) {
  return value.empty() || !value.is_structured() || (value.is_array() && IsFlat(value));
}

std::string InlineYaml(const Document& value) {
  if (!value.is_structured()) return YamlScalar(value);
  if (value.is_object()) return "{}";
  std::string out = "[";
  for (const Document& item : value)
    absl::StrAppend(&out, out.size() == 1 ? "" : ", ", YamlScalar(item));
  return out + "]";
}

// The fields or items of a value that does not fit a line. The items of a list begin below its key,
// and the other lines of an item are aligned under its first field.
std::string YamlBlock(const Document& value, const std::string& indent) {
  std::string out;
  for (const auto& [key, child] : value.items()) {
    const std::string nested = indent + "  ";
    if (value.is_array()) {
      std::string item = IsInline(child) ? absl::StrCat(nested, InlineYaml(child), "\n")
                                         : YamlBlock(child, nested);
      item[indent.size()] = '-';
      out += item;
      continue;
    }
    absl::StrAppend(&out, indent, YamlString(key), ":");
    if (child.is_string() && IsBlock(child.get<std::string>())) {
      absl::StrAppend(&out, " ", LiteralBlock(child.get<std::string>(), nested));
    } else if (IsInline(child)) {
      absl::StrAppend(&out, " ", InlineYaml(child), "\n");
    } else {
      absl::StrAppend(&out, "\n", YamlBlock(child, child.is_array() ? indent : nested));
    }
  }
  return out;
}

}  // namespace

std::string JsonText(const Document& document, bool pretty) {
  std::string out;
  EmitJson(document, pretty, "", &out);
  return out + "\n";
}

std::string YamlText(const Document& document) {
  return IsInline(document) ? InlineYaml(document) + "\n" : YamlBlock(document, "");
}

std::string TextOf(const Document& document, OutputFormat format) {
  STRETTO_CHECK(format != OutputFormat::kTable);
  return format == OutputFormat::kJson ? JsonText(document, true) : YamlText(document);
}

std::string StreamText(const Document& document, OutputFormat format) {
  STRETTO_CHECK(format != OutputFormat::kTable);
  return format == OutputFormat::kJson ? JsonText(document, false) : "---\n" + YamlText(document);
}

}  // namespace stretto

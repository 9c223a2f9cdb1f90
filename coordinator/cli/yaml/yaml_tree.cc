// SPDX-License-Identifier: Apache-2.0

// Builds the tree from yaml-cpp's events, which have positions, and refuses unsupported features at
// their first occurrence. Characters are checked beforehand, because yaml-cpp accepts some that are
// not valid.

#include "coordinator/cli/yaml/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

constexpr size_t kMaxBytes = limits::kYamlBytes.value;

SourcePosition At(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Builds the tree, records the first unsupported feature and ignores everything after it.
class TreeBuilder final : public YAML::EventHandler {
 public:
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  SourcePosition error_position() const { return error_position_; }
  bool has_document() const { return documents_ > 0; }
  YamlNode TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) Fail(mark, "found a second document, expected one per file");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add({.kind = YamlNode::Kind::kNull, .position = At(mark)}, mark, "?", anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Fail(mark, "found an alias (*), expected the value itself");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Add({.kind = YamlNode::Kind::kScalar,
         .position = At(mark),
         .text = value,
         .quoted = tag == "!"},
        mark, tag, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open({.kind = YamlNode::Kind::kSequence, .position = At(mark)}, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open({.kind = YamlNode::Kind::kMapping, .position = At(mark)}, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  void Fail(const YAML::Mark& mark, const std::string& error) {
    if (failed()) return;
    error_ = error;
    error_position_ = At(mark);
  }

  void Accept(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) Fail(mark, "found an anchor (&), expected the value itself");
    if (!tag.empty() && tag != "?" && tag != "!") {
      Fail(mark, absl::StrCat("found the tag ", tag, ", expected a value without one"));
    }
  }

  void Add(YamlNode node, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    Accept(mark, tag, anchor);
    if (failed()) return;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    YamlNode& parent = open_.back();
    const bool is_key =
        parent.kind == YamlNode::Kind::kMapping && parent.keys.size() == parent.values.size();
    if (is_key && node.kind != YamlNode::Kind::kScalar) {
      Fail(mark, "found a key that is not a word, expected a field name");
      return;
    }
    (is_key ? parent.keys : parent.values).push_back(std::move(node));
  }

  void Open(YamlNode node, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    Accept(mark, tag, anchor);
    if (!failed()) open_.push_back(std::move(node));
  }

  void Close() {
    if (failed()) return;
    STRETTO_CHECK(!open_.empty());
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    YAML::Mark mark;
    mark.line = node.position.line - 1;
    mark.column = node.position.column - 1;
    Add(std::move(node), mark, "?", 0);
  }

  int documents_ = 0;
  YamlNode root_;
  std::vector<YamlNode> open_;
  std::string error_;
  SourcePosition error_position_;
};

// Returns the length of the UTF-8 sequence at the start of `text` in bytes; 0 if it is invalid (RFC
// 3629).
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

// Refuses characters that yaml-cpp silently accepts.
absl::Status CheckCharacters(const std::string& text, const std::string& file) {
  SourcePosition position;
  bool indentation = true;
  for (size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c == '\t' && indentation) {
      return ErrorAt(file, position, "found a tab in the indentation, expected spaces");
    }
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7F) {
      return ErrorAt(file, position,
                     absl::StrCat("found control character ", absl::Hex(c, absl::kZeroPad2),
                                  ", expected text"));
    }
    const size_t length = Utf8Length(absl::string_view(text).substr(i));
    if (length == 0) {
      return ErrorAt(
          file, position,
          absl::StrCat("found byte ", absl::Hex(c, absl::kZeroPad2), ", expected UTF-8"));
    }
    indentation = c == '\n' || (indentation && c == ' ');
    position.column += length;
    if (c == '\n') position = {position.line + 1, 1};
    i += length;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrorAt(absl::string_view file, SourcePosition position, absl::string_view message) {
  const std::string place =
      position.line == 0 ? "" : absl::StrCat(":", position.line, ":", position.column);
  return absl::InvalidArgumentError(absl::StrCat(file, place, ": ", message));
}

absl::StatusOr<YamlNode> ParseYaml(const std::string& text, const std::string& file) {
  if (text.size() > kMaxBytes) {
    return ErrorAt(file, {},
                   absl::StrCat("found ", text.size(), " bytes, expected at most ", kMaxBytes));
  }
  RETURN_IF_ERROR(CheckCharacters(text, file));
  TreeBuilder builder;
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (!builder.failed() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (!builder.failed()) {
      return ErrorAt(file, At(error.mark),
                     absl::StrCat("found no YAML (", error.msg,
                                  "), expected fields `name: value`, with what is in a field, or "
                                  "the lines of a text, indented below it"));
    }
  }
  if (builder.failed()) return ErrorAt(file, builder.error_position(), builder.error());
  if (!builder.has_document()) return ErrorAt(file, {}, "found nothing, expected fields");
  return builder.TakeRoot();
}

}  // namespace stretto::cli

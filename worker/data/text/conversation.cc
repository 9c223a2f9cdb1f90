// SPDX-License-Identifier: Apache-2.0

// Appends text to segments, joining what is trained on and what is not, so that each run of text is
// encoded as a whole.

#include "worker/data/text/conversation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr char kAssistant[] = "assistant";
constexpr char kForms[] = "\"messages\", or \"prompt\" and \"completion\"";

const std::vector<ChatFormat>& All() {
  static const auto* const formats = new std::vector<ChatFormat>{
      {.name = "plain", .begin = "", .before = "", .after = ":\n", .end = "\n\n", .markers = {}},
      {.name = "chatml",
       .begin = "",
       .before = "<|im_start|>",
       .after = "\n",
       .end = "<|im_end|>\n",
       .markers = {"<|im_start|>", "<|im_end|>"}},
      {.name = "llama3",
       .begin = "<|begin_of_text|>",
       .before = "<|start_header_id|>",
       .after = "<|end_header_id|>\n\n",
       .end = "<|eot_id|>",
       .markers = {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
  };
  return *formats;
}

absl::Status Refused(const std::string& where, const std::string& found,
                     const std::string& expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, where.empty() ? "" : ": ", "found ", found, ", expected ", expected));
}

// The first characters of a value, for messages.
std::string Shown(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 60);
}

// Returns the text of a member; `where` names the object.
absl::StatusOr<std::string> MemberText(const json& object, const char* key,
                                       const std::string& where) {
  const auto member = object.find(key);
  const std::string field = absl::StrCat(where, key);
  if (member == object.end()) return Refused(field, "none", "text");
  if (!member->is_string()) return Refused(field, Shown(*member), "text");
  return member->get<std::string>();
}

class Segments {
 public:
  void Append(absl::string_view text, bool trained) {
    if (text.empty()) return;
    if (segments_.empty() || segments_.back().trained != trained) {
      segments_.push_back({"", trained});
    }
    absl::StrAppend(&segments_.back().text, text);
  }
  std::vector<Segment> Take() { return std::move(segments_); }

 private:
  std::vector<Segment> segments_;
};

absl::StatusOr<std::vector<Segment>> OfMessages(const json& messages, const ChatFormat& format) {
  if (!messages.is_array() || messages.empty()) {
    return Refused("messages", Shown(messages), "a list with a message");
  }
  Segments segments;
  segments.Append(format.begin, false);
  bool answered = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = absl::StrCat("messages[", i, "]");
    if (!messages[i].is_object()) {
      return Refused(where, Shown(messages[i]), "an object with \"role\" and \"content\"");
    }
    ASSIGN_OR_RETURN(const std::string role, MemberText(messages[i], "role", where + "."));
    if (role.empty()) return Refused(where + ".role", "nothing", "a role, such as user");
    ASSIGN_OR_RETURN(const std::string content, MemberText(messages[i], "content", where + "."));
    const bool trained = role == kAssistant;
    answered = answered || trained;
    segments.Append(absl::StrCat(format.before, role, format.after), false);
    segments.Append(absl::StrCat(content, format.end), trained);
  }
  if (!answered) return Refused("messages", "none of role assistant", "one to train on");
  return segments.Take();
}

}  // namespace

const ChatFormat* FindChatFormat(absl::string_view name) {
  const auto found = std::find_if(All().begin(), All().end(),
                                  [&](const ChatFormat& format) { return format.name == name; });
  return found == All().end() ? nullptr : &*found;
}

std::string ChatFormats() {
  return absl::StrJoin(All(), "|", [](std::string* out, const ChatFormat& format) {
    absl::StrAppend(out, format.name);
  });
}

absl::Status CheckMarkers(const ChatFormat& format, const Tokenizer& tokenizer) {
  for (const char* marker : format.markers) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokenizer.Encode(marker));
    if (tokens.size() == 1) continue;
    return Refused(absl::StrCat("--chat-format ", format.name),
                   absl::StrCat(tokens.size(), " tokens for ", marker),
                   "a tokenizer that has it as one; plain needs none");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Segment>> SegmentsOf(const json& line, const ChatFormat& format) {
  if (!line.is_object()) return Refused("", Shown(line), absl::StrCat("an object with ", kForms));
  const auto messages = line.find("messages");
  const bool prompts = line.contains("prompt") || line.contains("completion");
  if ((messages != line.end()) == prompts) {
    return Refused("", prompts ? "both" : Shown(line), absl::StrCat("an object with ", kForms));
  }
  if (!prompts) return OfMessages(*messages, format);
  ASSIGN_OR_RETURN(const std::string prompt, MemberText(line, "prompt", ""));
  ASSIGN_OR_RETURN(const std::string completion, MemberText(line, "completion", ""));
  if (completion.empty()) return Refused("completion", "nothing", "text to train on");
  Segments segments;
  segments.Append(prompt, false);
  segments.Append(completion, true);
  return segments.Take();
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Documents of which only parts are trained on: completions of prompts, and what the assistant says
// in a conversation. A line of JSON has one of them:
//
//   {"prompt": "...", "completion": "..."}
//   {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "worker/data/text/tokenizer.h"

namespace stretto {

// How messages become text: `begin`, then for each message `before`, its role, `after`, its content
// and `end`. A document of prompt and completion has nothing of this.
struct ChatFormat {
  const char* name;
  const char* begin;
  const char* before;
  const char* after;
  const char* end;
  std::vector<const char*> markers;  // texts that are one token each
};

// Returns null if there is no such format.
const ChatFormat* FindChatFormat(absl::string_view name);
// Returns the names of all, separated by "|".
std::string ChatFormats();

// Returns InvalidArgument if the tokenizer has no single token for a marker of the format.
absl::Status CheckMarkers(const ChatFormat& format, const Tokenizer& tokenizer);

struct Segment {
  std::string text;  // never empty
  bool trained = false;

  bool operator==(const Segment&) const = default;
};

// Returns the segments of a line, of which neighbours differ in `trained`. What the assistant says
// is trained on, with the text that ends its message. Errors: InvalidArgument, without a place:
// found and expected (neither of the two forms or both, another type, nothing to train on).
absl::StatusOr<std::vector<Segment>> SegmentsOf(const nlohmann::json& line,
                                                const ChatFormat& format);

}  // namespace stretto

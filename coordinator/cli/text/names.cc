#include "coordinator/cli/text/names.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stretto::cli {
namespace {

// Levenshtein distance with adjacent transpositions counted once.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

std::string UpperSnake(absl::string_view camel) {
  std::string out;
  for (size_t i = 0; i < camel.size(); ++i) {
    if (i > 0 && absl::ascii_isupper(camel[i]) && !absl::ascii_isupper(camel[i - 1])) out += '_';
    out += absl::ascii_toupper(camel[i]);
  }
  return out;
}

}  // namespace

std::string ShortName(const google::protobuf::EnumValueDescriptor& value) {
  absl::string_view name = value.name();
  const std::string prefix = UpperSnake(value.type()->name()) + "_";
  if (absl::StartsWith(name, prefix)) name.remove_prefix(prefix.size());
  return absl::AsciiStrToLower(name);
}

std::vector<std::string> AcceptedNames(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) names.push_back(ShortName(*type.value(i)));
  }
  return names;
}

std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string lower = absl::AsciiStrToLower(word);
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(lower, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string ResourceName(absl::string_view collection, absl::string_view name) {
  const std::string prefix = absl::StrCat(collection, "/");
  return absl::StartsWith(name, prefix) ? std::string(name) : absl::StrCat(prefix, name);
}

std::string ShortResourceName(absl::string_view name) {
  const size_t slash = name.find('/');
  return std::string(slash == absl::string_view::npos ? name : name.substr(slash + 1));
}

}  // namespace stretto::cli

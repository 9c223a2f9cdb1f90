#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "coordinator/service/spec_checks.h"
#include "coordinator/service/validate_request.h"

namespace stretto::service {
namespace {

constexpr size_t kMaxPath = 1024;
constexpr int kMaxParts = 1024;
constexpr double kMaxWeight = 1e9;

void CheckBlend(const v1alpha1::DataSpec& data, Violations* violations) {
  const std::string field = "spec.data.blend";
  violations->Expect(data.prefix().empty(), "spec.data.prefix", Quoted(data.prefix()),
                     "nothing, because blend names the data");
  if (!violations->Expect(data.blend_size() <= kMaxParts, field,
                          absl::StrCat(data.blend_size(), " parts"),
                          absl::StrCat("at most ", kMaxParts))) {
    return;
  }
  std::map<std::string, int> seen;
  for (int i = 0; i < data.blend_size(); ++i) {
    const v1alpha1::BlendPart& part = data.blend(i);
    const std::string at = absl::StrCat(field, "[", i, "].");
    if (CheckDataPrefix(at + "prefix", part.prefix(), violations)) {
      const auto [first, is_new] = seen.emplace(part.prefix(), i);
      violations->Expect(
          is_new, at + "prefix", Quoted(part.prefix()),
          absl::StrCat("other data than blend[", first->second, "], whose weight can be the sum"));
    }
    violations->Number(at + "weight", part.weight(),
                       part.weight() > 0 && part.weight() <= kMaxWeight,
                       "a number above 0, at most 1e9");
  }
}

}  // namespace

std::string PathFault(absl::string_view path) {
  if (path.empty()) return "a path";
  if (path.size() > kMaxPath) return absl::StrCat("at most ", kMaxPath, " characters");
  for (unsigned char c : path) {
    if (c < 0x20 || c == 0x7f) return "no control characters";
  }
  if (path[0] == '/') return "a relative path";
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part == "..") return "no '..'";
    if (part == "." || part.empty()) return "no empty or '.' component";
  }
  return "";
}

bool CheckDataPrefix(absl::string_view field, const std::string& name, Violations* violations) {
  absl::string_view path = name;
  const bool files = absl::ConsumePrefix(&path, "llmc:");
  std::string fault = PathFault(path);
  if (fault.empty() && files && absl::StrContains(path, '*') &&
      path.find('/', path.find('*')) != path.npos) {
    fault = "'*' in the last part alone";
  }
  return violations->Expect(fault.empty(), field, Quoted(name),
                            absl::StrCat(fault, fault == "a path" ? "" : " in a path",
                                         " beneath the worker's data root"));
}

void CheckData(const v1alpha1::DataSpec& data, Violations* violations) {
  if (data.blend_size() > 0) {
    CheckBlend(data, violations);
  } else {
    CheckDataPrefix("spec.data.prefix", data.prefix(), violations);
  }
  violations->Number("spec.data.held_out", data.held_out(),
                     data.held_out() >= 0 && data.held_out() <= 0.5, "a number from 0 to 0.5");
}

}  // namespace stretto::service

// SPDX-License-Identifier: Apache-2.0

// Rules of names: of data sets, of weights, and of the paths in both.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/limits.h"
#include "proto/base/printable.h"
#include "proto/spec/job/rules.h"

namespace stretto::spec {
namespace {

constexpr size_t kMaxPath = 1024;
constexpr int kMaxParts = limits::kBlendParts.value;

// What is expected instead of a path with this fault.
std::string UnderDataRoot(const std::string& fault) {
  return absl::StrCat(fault, absl::EndsWith(fault, " path") ? "" : " in a path",
                      " under the worker's data root");
}

// Checks PREFIX or llmc:FILES, under the workers' data root.
bool CheckDataPrefix(absl::string_view path, const std::string& name, Violations* violations) {
  absl::string_view files = name;
  const bool llmc = absl::ConsumePrefix(&files, "llmc:");
  std::string fault = PathFault(files);
  if (fault.empty() && llmc && absl::StrContains(files, '*') &&
      files.find('/', files.find('*')) != files.npos) {
    fault = "'*' only in the last part";
  }
  return violations->Expect(fault.empty(), path, Quoted(name), UnderDataRoot(fault));
}

void CheckBlend(const v1alpha1::DataSpec& data, Violations* violations) {
  violations->Expect(data.prefix().empty(), "data.prefix", Quoted(data.prefix()),
                     "nothing, because blend names the data");
  if (!violations->Expect(data.blend_size() <= kMaxParts, "data.blend",
                          absl::StrCat(data.blend_size(), " parts"),
                          absl::StrCat("at most ", kMaxParts))) {
    return;
  }
  std::map<std::string, int> seen;
  for (int i = 0; i < data.blend_size(); ++i) {
    const std::string& name = data.blend(i).prefix();
    const std::string path = absl::StrCat("data.blend[", i, "].prefix");
    if (!CheckDataPrefix(path, name, violations)) continue;
    const auto [first, is_new] = seen.emplace(name, i);
    violations->Expect(
        is_new, path, Quoted(name),
        absl::StrCat("other data than blend[", first->second, "], whose weight can be the sum"));
  }
}

void CheckNotTrainedOn(const std::string& name, const v1alpha1::DataSpec& data,
                       Violations* violations) {
  const auto check = [&](const std::string& trained_on, const std::string& path) {
    violations->Expect(name != trained_on, "eval.prefix", Quoted(name),
                       absl::StrCat("other data than ", path, ", which is trained on"));
  };
  check(data.prefix(), "data.prefix");
  for (int i = 0; i < data.blend_size(); ++i) {
    check(data.blend(i).prefix(), absl::StrCat("data.blend[", i, "].prefix"));
  }
}

void CheckEval(const v1alpha1::JobSpec& spec, Violations* violations) {
  if (!spec.has_eval()) return;
  const std::string& name = spec.eval().prefix();
  if (name.empty()) {
    violations->Expect(spec.data().held_out() > 0, "eval.prefix", Quoted(""),
                       "a data set, because data.held_out is 0");
  } else if (CheckDataPrefix("eval.prefix", name, violations)) {
    CheckNotTrainedOn(name, spec.data(), violations);
  }
}

}  // namespace

std::string PathFault(absl::string_view path) {
  if (path.empty()) return "a path";
  if (path.size() > kMaxPath) return absl::StrCat("at most ", kMaxPath, " characters");
  if (!IsPrintable(path)) return "no control characters";
  if (path[0] == '/') return "a relative path";
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part == "..") return "no '..'";
    if (part == "." || part.empty()) return "no empty or '.' component";
  }
  return "";
}

void CheckWeights(absl::string_view path, absl::string_view found,
                  const std::vector<absl::string_view>& kinds, Violations* violations) {
  const std::pair<absl::string_view, absl::string_view> name =
      absl::StrSplit(found, absl::MaxSplits(':', 1));
  if (!violations->Expect(std::find(kinds.begin(), kinds.end(), name.first) != kinds.end(), path,
                          Quoted(found),
                          absl::StrCat(absl::StrJoin(kinds, ": or "), ": and a path"))) {
    return;
  }
  const std::string fault = PathFault(name.second);
  violations->Expect(fault.empty(), path, Quoted(found), UnderDataRoot(fault));
}

void CheckData(const v1alpha1::JobSpec& spec, Violations* violations) {
  if (spec.data().blend_size() > 0) {
    CheckBlend(spec.data(), violations);
  } else {
    CheckDataPrefix("data.prefix", spec.data().prefix(), violations);
  }
  CheckEval(spec, violations);
  const std::string& weights = spec.model().initial_weights();
  if (!weights.empty()) CheckWeights("model.initial_weights", weights, {"hf", "llmc"}, violations);
}

}  // namespace stretto::spec

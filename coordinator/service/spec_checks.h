#pragma once
// Shared by normalize_spec.cc and the validate_*.cc files: limits, and the checks of single parts
// of a spec. Not for others.

#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "coordinator/service/errors.h"
#include "proto/spec/presets.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::service {

inline constexpr int kMaxVocabulary = 1 << 22;
inline constexpr int kMaxBatch = 1 << 16;
inline constexpr int kMaxTpSize = 1024;

// Collects what is wrong; each method returns whether its check passed.
class Violations {
 public:
  bool Require(bool ok, absl::string_view field, absl::string_view description) {
    if (!ok) list_.push_back({std::string(field), std::string(description)});
    return ok;
  }
  template <class T>
  bool Expect(bool ok, absl::string_view field, const T& found, absl::string_view expected) {
    return ok || Require(false, field, absl::StrCat("found ", found, ", expected ", expected));
  }
  bool InRange(absl::string_view field, int64_t found, int64_t low, int64_t high) {
    return Expect(found >= low && found <= high, field, found,
                  absl::StrCat("a number from ", low, " to ", high));
  }
  // Also false for NaN.
  bool Number(absl::string_view field, double found, bool ok, absl::string_view expected) {
    return Expect(std::isfinite(found), field, found, "a finite number") &&
           Expect(ok, field, found, expected);
  }
  absl::Status status() const { return list_.empty() ? absl::OkStatus() : FieldErrors(list_); }

 private:
  std::vector<FieldViolation> list_;
};

inline v1alpha1::Family FamilyOf(const ModelPreset& preset) {
  return static_cast<v1alpha1::Family>(preset.family);
}

// Why a path from a user may not be joined to a root; empty when it may.
std::string PathFault(absl::string_view path);

// The name of data: PREFIX or llmc:FILES, beneath the workers' data root.
bool CheckDataPrefix(absl::string_view field, const std::string& name, Violations* violations);

// Each assumes that the parts before it were checked too, and does not repeat their refusals.
void CheckModel(const v1alpha1::ModelSpec& model, Violations* violations);
void CheckParallelism(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckSchedule(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckData(const v1alpha1::DataSpec& data, Violations* violations);
void CheckDevice(const v1alpha1::JobSpec& spec, Violations* violations);

}  // namespace stretto::service

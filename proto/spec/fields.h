// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fields of a job spec, one row each. Defaults, validation, the spec hash, `stretto explain`,
// docs/reference/job-spec.md and the import of other formats read this table. Rules that need more
// than one field are code in proto/spec/job, each written once.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto {

// The range of a number; both ends are included unless marked otherwise.
struct Range {
  static constexpr double kUnbounded = std::numeric_limits<double>::infinity();

  double low = -kUnbounded, high = kUnbounded;
  bool above_low = false, below_high = false;  // the end itself is excluded

  bool bounded() const { return low > -kUnbounded || high < kUnbounded; }
  bool Contains(double value) const;  // false for NaN and infinities
  std::string Text() const;           // "1 to 256", "above 0, at most 1000", "at least 0"
};

// The kinds of specs that take a field. Any other spec that has the field is refused.
enum class Taker : uint8_t {
  kAll,
  kRotary,      // models with rotary positions
  kLlama3,      // model.rotary_scaling of kind llama3
  kSliced,      // schedules that slice the batch
  kSplit,       // schedules that split products
  kDeferring,   // schedules that may defer weight gradients
  kOnCpu,       // ranks on CPUs
  kStaged,      // jobs with several stages
  kReplicated,  // jobs with several replicas
  kAdjusting,   // orders of a pipeline that take warm-ups by hand
  kDelaying,    // orders of a pipeline in which weight gradients may wait
  kWeaving,     // schedules that weave
  kUnwoven,     // schedules that do not
};
std::string TextOf(Taker taker);  // "family llama", "schedules domino_col, domino_hybrid"
std::string AdjustableOrders();   // "orders 1f1b, eager_1f1b"
std::string DelayingOrders();     // those in which weight gradients may wait
std::string ChunkedOrders();      // "orders interleaved_1f1b, folded"
std::string FoldedOrders();       // "order folded"
std::string WeavingSchedules();   // "schedule helix"

// Whether a field affects numbers that a resumed run must reproduce.
enum class InHash : uint8_t {
  kNo,
  kYes,     // written by code: the fields of the first releases, in their old form
  kAdded,   // written as ";PATH=VALUE" unless it is the default, so that older hashes hold
  kLayout,  // the same; how work is spread over ranks, which changes rounding alone
};

struct ValueText {
  std::string name, help;
};

// Configuration keys of Hugging Face models; null where the format has none.
struct HuggingFaceKeys {
  const char* gpt2 = nullptr;
  const char* llama = nullptr;
};

struct Field {
  const char* path;  // as job files have it, without "spec."; a message is a section
  const char* help;  // paragraphs, without range and default
  Range range = {};
  const char* unit = "";  // of a number: "tokens"
  // The default: a value in the form of job files ...
  const char* value = "";
  // ... or, if it depends on other fields or is no value, a description.
  // proto/spec/job/normalize.cc computes it.
  const char* derived = "";
  const char* required = "";  // "always", or a condition: "without a preset"
  const char* why = "";       // the reason for the range, for refusals
  Taker taker = Taker::kAll;
  InHash in_hash = InHash::kNo;
  // A section whose absence means that something is not done. Its defaults are filled in only if
  // the section is given.
  bool optional = false;
  std::vector<ValueText> (*values)() = nullptr;  // of a string that is a name
  HuggingFaceKeys hugging_face = {};
};

// All fields in the order of job files, with a section before its fields.
const std::vector<Field>& JobFields();

// Returns null if the spec has no such field.
const Field* FindField(absl::string_view path);
// Returns the range of a field, which must exist.
const Range& RangeOf(absl::string_view path);

// Names with their help, for Field::values.
std::vector<ValueText> PresetValues();
std::vector<ValueText> ScheduleValues();
std::vector<ValueText> PipelineValues();
std::vector<ValueText> OptimizerValues();

}  // namespace stretto

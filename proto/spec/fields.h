// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fields of a job spec, one row each. Defaults, validation, the spec hash, `stretto explain`,
// docs/reference/job-spec.md and the import of other formats read this table. What needs more than
// one field is code, once: proto/spec/job.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto {

// Numbers that a field may have, both ends included unless said otherwise.
struct Range {
  static constexpr double kUnbounded = std::numeric_limits<double>::infinity();

  double low = -kUnbounded, high = kUnbounded;
  bool above_low = false, below_high = false;  // the end itself is excluded

  bool bounded() const { return low > -kUnbounded || high < kUnbounded; }
  bool Contains(double value) const;  // false for NaN and infinities
  std::string Text() const;           // "1 to 256", "above 0, at most 1000", "at least 0"
};

// Who takes a field. A spec that gives the field to anybody else is refused.
enum class Taker : uint8_t {
  kAll,
  kRotary,     // models with rotary positions
  kLlama3,     // model.rotary_scaling of kind llama3
  kSliced,     // schedules that slice the batch
  kSplit,      // schedules that split products
  kDeferring,  // schedules that may defer weight gradients
  kOnCpu,      // ranks on CPUs
};
std::string TextOf(Taker taker);  // "family llama", "schedules domino_col, domino_hybrid"

// Whether a field decides numbers that a resumed run must reproduce.
enum class InHash : uint8_t {
  kNo,
  kYes,    // written by code: the fields of the first releases, in the form that they had
  kAdded,  // written as ";PATH=VALUE" where it is not the default, so that older hashes stay
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
  // What a spec that leaves the field out gets: a value as job files have it ...
  const char* value = "";
  // ... or, where it depends on other fields or is no value, words. proto/spec/job/normalize.cc
  // computes it.
  const char* derived = "";
  const char* required = "";  // "always" or when: "without a preset"
  const char* why = "";       // why the range is as it is, for refusals
  Taker taker = Taker::kAll;
  InHash in_hash = InHash::kNo;
  // A section whose absence means that something is not done: its defaults are filled in only where
  // it is given.
  bool optional = false;
  std::vector<ValueText> (*values)() = nullptr;  // of a string that is a name
  HuggingFaceKeys hugging_face = {};
};

// In the order of job files, a section before its fields.
const std::vector<Field>& JobFields();

// Null if the spec has no such field.
const Field* FindField(absl::string_view path);
// The range of a field that exists.
const Range& RangeOf(absl::string_view path);

// Names with their help, for Field::values.
std::vector<ValueText> PresetValues();
std::vector<ValueText> ScheduleValues();
std::vector<ValueText> OptimizerValues();

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// Writes and parses the note field by field. Parsing bounds every number, because anyone may have
// written the checkpoint that contains the file.

#include "worker/exchange/model_note.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/spec/fields.h"
#include "worker/checkpoint/strict_json.h"
#include "worker/exchange/model_limits.h"

namespace stretto {
namespace {

nlohmann::ordered_json RotaryJson(const RotaryScaling& scaling) {
  nlohmann::ordered_json value;
  value["kind"] = NameOf(scaling.kind);
  switch (scaling.kind) {
    case RotaryScaling::Kind::kNone:
      break;
    case RotaryScaling::Kind::kLinear:
      value["factor"] = scaling.factor;
      break;
    case RotaryScaling::Kind::kLlama3:
      value["factor"] = scaling.factor;
      value["low_frequency_factor"] = scaling.low_frequency_factor;
      value["high_frequency_factor"] = scaling.high_frequency_factor;
      value["original_sequence_length"] = scaling.original_sequence_length;
      break;
  }
  return value;
}

int CountUpTo(StrictObject* object, const char* field, int64_t most) {
  const int64_t value = object->Count(field);
  if (value >= 1 && value <= most) return static_cast<int>(value);
  object->Fail(field, absl::StrCat(value), absl::StrCat("1 to ", most));
  return 1;
}

// Returns a number in [least, most]; NaN is in no range.
double NumberWithin(StrictObject* object, const char* field, double least, double most) {
  const double value = object->Number(field);
  if (value >= least && value <= most) return value;
  object->Fail(field, absl::StrCat(value), absl::StrCat(least, " to ", most));
  return most;
}

const Field& FieldOf(const ModelNumber& number) {
  return *FindField(absl::StrCat("model.", number.name));
}

// As in the hash of a spec, a number that came later is written where it is not the default, so
// that older notes stay valid.
bool IsAdded(const ModelNumber& number) { return FieldOf(number).in_hash == InHash::kAdded; }
bool IsWritten(const ModelNumber& number, const ModelSpec& model) {
  return !IsAdded(number) || model.*number.member != number.Default();
}

std::string OneOf(StrictObject* object, const char* field, const std::vector<std::string>& known,
                  absl::string_view expected) {
  std::string value = object->Text(field);
  if (std::find(known.begin(), known.end(), value) == known.end()) {
    object->Fail(field, absl::StrCat("'", value, "'"), expected);
  }
  return value;
}

absl::StatusOr<RotaryScaling> ParseRotary(const nlohmann::json& value, const std::string& where) {
  StrictObject object(value, where);
  RotaryScaling scaling;
  const std::string kind =
      OneOf(&object, "kind", {"none", "linear", "llama3"}, "none, linear or llama3");
  if (kind == "linear") scaling.kind = RotaryScaling::Kind::kLinear;
  if (kind == "llama3") scaling.kind = RotaryScaling::Kind::kLlama3;
  if (kind != "none")
    scaling.factor =
        NumberWithin(&object, "factor", 1, static_cast<double>(MaxOf("rotary_scaling.factor")));
  if (kind == "llama3") {
    scaling.low_frequency_factor = NumberWithin(&object, "low_frequency_factor", 1e-6, 1e6);
    scaling.high_frequency_factor = NumberWithin(&object, "high_frequency_factor", 1e-6, 1e6);
    scaling.original_sequence_length =
        CountUpTo(&object, "original_sequence_length", MaxOf("sequence_length"));
    if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
      object.Fail("high_frequency_factor", absl::StrCat(scaling.high_frequency_factor),
                  absl::StrCat("more than low_frequency_factor ", scaling.low_frequency_factor));
    }
  }
  RETURN_IF_ERROR(object.Finish());
  return scaling;
}

}  // namespace

std::string ModelNoteText(const ModelNote& note) {
  const ModelSpec& model = note.model;
  nlohmann::ordered_json document;
  document["family"] = model.architecture.name;
  document["layers"] = model.layers;
  document["hidden"] = model.hidden;
  document["heads"] = model.heads;
  document["kv_heads"] = model.key_heads();
  document["ffn_hidden"] = model.ffn_hidden;
  document["sequence_length"] = model.sequence_length;
  document["vocab_size"] = model.vocab_size;
  for (const ModelNumber& number : kModelNumbers) {
    if (IsWritten(number, model)) document[number.name] = model.*number.member;
  }
  document["tied_head"] = model.head_is_tied();
  if (model.architecture.positions == PositionKind::kRotary) {
    document["rotary_base"] = model.rotary_base;
    document["rotary_scaling"] = RotaryJson(model.rotary_scaling);
  }
  document["weights"] = note.dtype;
  document["tokenizer"] = note.tokenizer;
  return document.dump(1) + "\n";
}

absl::StatusOr<ModelNote> ParseModelNote(absl::string_view text, const std::string& path) {
  ASSIGN_OR_RETURN(const nlohmann::json document, ParseStrictJson(text, path));
  StrictObject object(document, path);
  ModelNote note;
  ModelSpec& model = note.model;
  const std::vector<std::string> families = FamilyNames();
  const std::string family = OneOf(&object, "family", families, absl::StrJoin(families, " or "));
  if (const Architecture* known = FindArchitecture(family)) model.architecture = *known;
  model.layers = CountUpTo(&object, "layers", MaxOf("layers"));
  model.hidden = CountUpTo(&object, "hidden", MaxOf("hidden"));
  model.heads = CountUpTo(&object, "heads", MaxOf("hidden"));
  model.kv_heads = CountUpTo(&object, "kv_heads", MaxOf("hidden"));
  model.ffn_hidden = CountUpTo(&object, "ffn_hidden", MaxOf("ffn_hidden"));
  model.sequence_length = CountUpTo(&object, "sequence_length", MaxOf("sequence_length"));
  model.vocab_size = CountUpTo(&object, "vocab_size", MaxOf("vocab_size"));
  for (const ModelNumber& number : kModelNumbers) {
    if (IsAdded(number) && !object.Has(number.name)) continue;
    const Range& range = FieldOf(number).range;
    model.*number.member = NumberWithin(&object, number.name, range.low, range.high);
  }
  model.tied_head = object.Flag("tied_head");
  if (model.architecture.positions == PositionKind::kRotary) {
    model.rotary_base = CountUpTo(&object, "rotary_base", MaxOf("rotary_base"));
    const nlohmann::json& scaling = object.Object("rotary_scaling");
    if (!scaling.empty()) {
      ASSIGN_OR_RETURN(model.rotary_scaling, ParseRotary(scaling, path + ": rotary_scaling"));
    }
  }
  note.dtype = OneOf(&object, "weights", {"F32", "BF16", "F16"}, "F32, BF16 or F16");
  note.tokenizer = OneOf(&object, "tokenizer", {"", "bytes", "files"}, "bytes, files or nothing");
  RETURN_IF_ERROR(object.Finish());
  RETURN_IF_ERROR(CheckModel(model, path));
  return note;
}

}  // namespace stretto

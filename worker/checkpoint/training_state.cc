// SPDX-License-Identifier: Apache-2.0

// Writes and parses the state field by field. A field that older releases did not have is optional
// when it is read, and absent while it has no value.

#include "worker/checkpoint/training_state.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/strict_json.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Losses are texts, because one may be infinite and JSON has no infinity.
std::string LossText(double loss) { return absl::StrFormat("%.17g", loss); }

ordered_json HeldOutJson(const HeldOutState& state) {
  ordered_json value;
  value["of"] = state.of;
  value["best_loss"] = LossText(state.best_loss);
  value["better_loss"] = LossText(state.better_loss);
  value["without_better"] = state.without_better;
  if (state.loss.has_value()) value["loss"] = LossText(*state.loss);
  return value;
}

ordered_json ParentJson(const ParentState& parent) {
  ordered_json value;
  value["job_uid"] = parent.job_uid;
  value["epoch"] = parent.epoch;
  value["step"] = parent.step;
  return value;
}

absl::StatusOr<ParentState> ParseParent(const json& value, const std::string& where) {
  StrictObject object(value, where);
  ParentState parent;
  parent.job_uid = object.Text("job_uid");
  parent.epoch = object.Count("epoch");
  parent.step = object.Count("step");
  RETURN_IF_ERROR(object.Finish());
  return parent;
}

double ParseLoss(StrictObject& object, const char* field) {
  const std::string text = object.Text(field);
  double loss = 0;
  if (!absl::SimpleAtod(text, &loss) || std::isnan(loss)) object.Fail(field, text, "a loss");
  return loss;
}

absl::StatusOr<HeldOutState> ParseHeldOut(const json& value, const std::string& where) {
  StrictObject object(value, where);
  HeldOutState state;
  state.of = object.Text("of");
  state.best_loss = ParseLoss(object, "best_loss");
  state.better_loss = ParseLoss(object, "better_loss");
  state.without_better = object.Count("without_better");
  if (object.Has("loss")) state.loss = ParseLoss(object, "loss");
  RETURN_IF_ERROR(object.Finish());
  return state;
}

}  // namespace

void AddTrainingState(const TrainingState& state, ordered_json* document) {
  ordered_json& fields = *document;
  fields["step"] = state.step;
  fields["updates"] = state.updates;
  fields["consumed_samples"] = state.consumed_samples;
  fields["seed"] = state.seed;
  fields["epoch"] = state.epoch;
  if (!state.job_uid.empty()) fields["job_uid"] = state.job_uid;
  if (state.parent.has_value()) fields["parent"] = ParentJson(*state.parent);
  fields["spec_hash"] = state.spec_hash;
  if (!state.math_hash.empty()) fields["math_hash"] = state.math_hash;
  fields["tokenizer_hash"] = state.tokenizer_hash;
  fields["padded_vocab"] = state.padded_vocab;
  fields["world_size"] = state.world_size;
  fields["tp_size"] = state.tp_size;
  if (!state.held_out.of.empty()) fields["held_out"] = HeldOutJson(state.held_out);
}

absl::StatusOr<TrainingState> TakeTrainingState(StrictObject& object, const std::string& where) {
  TrainingState state;
  state.step = object.Count("step");
  state.updates = object.Count("updates");
  state.consumed_samples = object.Count("consumed_samples");
  state.seed = object.Unsigned("seed");
  state.epoch = object.Count("epoch");
  if (object.Has("job_uid")) state.job_uid = object.Text("job_uid");
  if (object.Has("parent")) {
    const json& parent = object.Object("parent");
    RETURN_IF_ERROR(object.status());
    ASSIGN_OR_RETURN(state.parent, ParseParent(parent, absl::StrCat(where, ": parent")));
  }
  state.spec_hash = object.Text("spec_hash");
  if (object.Has("math_hash")) state.math_hash = object.Text("math_hash");
  state.tokenizer_hash = object.Text("tokenizer_hash");
  state.padded_vocab = object.Count("padded_vocab");
  state.world_size = object.Count("world_size");
  state.tp_size = object.Count("tp_size");
  if (object.Has("held_out")) {
    const json& held_out = object.Object("held_out");
    RETURN_IF_ERROR(object.status());
    ASSIGN_OR_RETURN(state.held_out, ParseHeldOut(held_out, absl::StrCat(where, ": held_out")));
  }
  return state;
}

std::string TrainingStateText(const TrainingState& state) {
  ordered_json document;
  AddTrainingState(state, &document);
  return document.dump();
}

absl::StatusOr<TrainingState> ParseTrainingState(absl::string_view text, const std::string& path) {
  ASSIGN_OR_RETURN(const json document, ParseStrictJson(text, path));
  StrictObject object(document, path);
  ASSIGN_OR_RETURN(TrainingState state, TakeTrainingState(object, path));
  RETURN_IF_ERROR(object.Finish());
  return state;
}

}  // namespace stretto

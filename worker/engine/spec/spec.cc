// Names of enums, and the rules that a spec must satisfy before anything is built from it. Each
// rule names its field, what was found and what was expected.

#include "worker/engine/spec/spec.h"

#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

template <class T>
absl::Status Expect(bool ok, absl::string_view field, const T& found, absl::string_view expected) {
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": found ", found, ", expected ", expected));
}

}  // namespace

const char* NameOf(RotaryScaling::Kind kind) {
  switch (kind) {
    case RotaryScaling::Kind::kNone:
      return "none";
    case RotaryScaling::Kind::kLinear:
      return "linear";
    case RotaryScaling::Kind::kLlama3:
      return "llama3";
  }
  return "?";
}

const char* NameOf(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "none";
    case Recompute::kSelective:
      return "selective";
    case Recompute::kFull:
      return "full";
  }
  return "?";
}

std::vector<int> EvenSlices(int sequences, int slices) {
  std::vector<int> sizes(static_cast<size_t>(slices), sequences / slices);
  for (int i = 0; i < sequences % slices; ++i) ++sizes[i];
  return sizes;
}

namespace {

absl::Status ValidateRotary(const ModelSpec& model) {
  const RotaryScaling& scaling = model.rotary_scaling;
  RETURN_IF_ERROR(Expect(model.head_dim() % 2 == 0, "model.heads", model.heads,
                         "heads of an even dimension, for rotary embedding"));
  RETURN_IF_ERROR(
      Expect(model.rotary_base >= 1, "model.rotary_base", model.rotary_base, "at least 1"));
  if (scaling.kind == RotaryScaling::Kind::kNone) return absl::OkStatus();
  RETURN_IF_ERROR(Expect(scaling.factor >= 1 && std::isfinite(scaling.factor),
                         "model.rotary_scaling.factor", scaling.factor, "at least 1"));
  if (scaling.kind == RotaryScaling::Kind::kLinear) return absl::OkStatus();
  const double low = scaling.low_frequency_factor, high = scaling.high_frequency_factor;
  RETURN_IF_ERROR(
      Expect(low >= 1e-6, "model.rotary_scaling.low_frequency_factor", low, "at least 1e-6"));
  RETURN_IF_ERROR(Expect(high > low && std::isfinite(high),
                         "model.rotary_scaling.high_frequency_factor", high,
                         absl::StrCat("above low_frequency_factor ", low)));
  return Expect(scaling.original_sequence_length >= 1,
                "model.rotary_scaling.original_sequence_length", scaling.original_sequence_length,
                "at least 1");
}

absl::Status ValidatePositions(const ModelSpec& model) {
  switch (model.architecture.positions) {
    case PositionKind::kLearned:
      return Expect(model.rotary_scaling.kind == RotaryScaling::Kind::kNone, "model.rotary_scaling",
                    NameOf(model.rotary_scaling.kind), "none, for learned positions");
    case PositionKind::kRotary:
      return ValidateRotary(model);
  }
  return absl::OkStatus();
}

absl::Status ValidateModel(const ModelSpec& model, int tp) {
  RETURN_IF_ERROR(Expect(model.layers >= 1, "model.layers", model.layers, "at least 1"));
  RETURN_IF_ERROR(Expect(model.hidden >= 1, "model.hidden", model.hidden, "at least 1"));
  RETURN_IF_ERROR(Expect(model.heads >= 1, "model.heads", model.heads, "at least 1"));
  RETURN_IF_ERROR(
      Expect(model.ffn_hidden >= 1, "model.ffn_hidden", model.ffn_hidden, "at least 1"));
  RETURN_IF_ERROR(Expect(model.sequence_length >= 1, "model.sequence_length", model.sequence_length,
                         "at least 1"));
  RETURN_IF_ERROR(
      Expect(model.vocab_size >= 2, "model.vocab_size", model.vocab_size, "at least 2"));
  RETURN_IF_ERROR(Expect(model.hidden % model.heads == 0, "model.heads", model.heads,
                         absl::StrCat("a divisor of hidden ", model.hidden)));
  RETURN_IF_ERROR(Expect(model.kv_heads >= 0 && model.heads % model.key_heads() == 0,
                         "model.kv_heads", model.kv_heads,
                         absl::StrCat("a divisor of heads ", model.heads)));
  RETURN_IF_ERROR(Expect(model.key_heads() % tp == 0, "tp_size", tp,
                         absl::StrCat("a divisor of the ", model.key_heads(),
                                      model.kv_heads > 0 ? " kv_heads" : " heads")));
  RETURN_IF_ERROR(Expect(model.ffn_hidden % tp == 0, "tp_size", tp,
                         absl::StrCat("a divisor of ffn_hidden ", model.ffn_hidden)));
  RETURN_IF_ERROR(
      Expect(model.padded_vocab() % tp == 0, "tp_size", tp,
             absl::StrCat("a divisor of the padded vocabulary ", model.padded_vocab())));
  RETURN_IF_ERROR(ValidatePositions(model));
  RETURN_IF_ERROR(Expect(model.norm_epsilon >= 1.2e-38 && model.norm_epsilon <= 1,
                         "model.norm_epsilon", model.norm_epsilon,
                         "at least 1.2e-38, as f32 has it, and at most 1"));
  return Expect(model.dropout >= 0 && model.dropout < 1, "model.dropout", model.dropout,
                "at least 0 and below 1");
}

absl::Status ValidateSchedule(const EngineSpec& spec) {
  const ScheduleSpec& schedule = spec.schedule;
  for (int size : schedule.slices) {
    RETURN_IF_ERROR(
        Expect(size >= 1, "schedule.slice_sizes", size, "at least 1 sequence in a slice"));
  }
  const int total = std::accumulate(schedule.slices.begin(), schedule.slices.end(), 0);
  RETURN_IF_ERROR(Expect(total == spec.micro_batch_size, "schedule.slice_sizes", total,
                         absl::StrCat("slices that sum to micro_batch_size ", spec.micro_batch_size,
                                      ", not ", absl::StrJoin(schedule.slices, "+"))));
  RETURN_IF_ERROR(Expect(schedule.splits >= 1 && spec.model.hidden % schedule.splits == 0,
                         "schedule.splits", schedule.splits,
                         absl::StrCat("a divisor of hidden ", spec.model.hidden)));
  RETURN_IF_ERROR(Expect(schedule.defer_wgrads >= 0, "schedule.defer_wgrads", schedule.defer_wgrads,
                         "at least 0"));
  const int merged = schedule.merge_wgrads;
  RETURN_IF_ERROR(Expect(
      merged == 0 || (merged > 0 && spec.micro_batches % merged == 0), "schedule.merge_wgrads",
      merged, absl::StrCat("0 or a divisor of the ", spec.micro_batches, " micro_batches")));
  if (!schedule.sequence_parallel) return absl::OkStatus();
  return Expect(spec.model.sequence_length % spec.tp_size == 0, "model.sequence_length",
                spec.model.sequence_length,
                absl::StrCat("a multiple of tp_size ", spec.tp_size, " with sequence_parallel"));
}

}  // namespace

absl::Status Validate(const EngineSpec& spec) {
  RETURN_IF_ERROR(Expect(spec.tp_size >= 1, "tp_size", spec.tp_size, "at least 1"));
  RETURN_IF_ERROR(ValidateModel(spec.model, spec.tp_size));
  RETURN_IF_ERROR(
      Expect(spec.micro_batch_size >= 1, "micro_batch_size", spec.micro_batch_size, "at least 1"));
  RETURN_IF_ERROR(
      Expect(spec.micro_batches >= 1, "micro_batches", spec.micro_batches, "at least 1"));
  return ValidateSchedule(spec);
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0

// Three kinds of functions that rows of the table refer to. Conversions turn attributes into the
// structs that kernels take. Checks prove what a shape rule cannot express and define the sizes
// that later rules use; each bounds its numbers before it multiplies them. Work functions count
// what an operation computes and moves.

#include "worker/engine/program/operation_rules.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto {

VocabShard VocabOf(const Attributes& at) { return {at["start"], at["size"]}; }

AttentionShape AttentionOf(const Attributes& at) {
  return {.sequence_length = at["sequence"],
          .heads = at["heads"],
          .kv_heads = at["kv_heads"],
          .head_dim = at["head_dim"],
          .first_head = at["first_head"],
          .library_scratch = at.Has("library") ? at["library"] : 0};
}

Dropout DropoutOf(const Attributes& at) {
  return {.threshold = at["drop"], .site = at["site"], .first_token = at["first"]};
}

RotarySpeed SpeedOf(const Attributes& at) {
  return {.base = at["base"],
          .scaling = {.kind = static_cast<RotaryScaling::Kind>(at["scaling"]),
                      .factor = at.Real("~factor"),
                      .low_frequency_factor = at.Real("~low"),
                      .high_frequency_factor = at.Real("~high"),
                      .original_sequence_length = static_cast<int>(at["original"])}};
}

BoxCopy BoxOf(const Attributes& at) {
  return {.from = {at["x0"], at["x1"], at["x2"], at["x3"]},
          .to = {at["y0"], at["y1"], at["y2"], at["y3"]},
          .extents = {at["n0"], at["n1"], at["n2"], at["n3"]}};
}

absl::Status CheckColumns(ShapeCheck& at) {
  const int64_t end = at.attributes()["column"] + at.Columns("dx");
  if (end <= at.Columns("w")) return absl::OkStatus();
  return at.Error(absl::StrCat("columns up to ", end), absl::StrCat("at most ", at.Columns("w")));
}

absl::Status CheckEpsilon(ShapeCheck& at) {
  const double epsilon = at.attributes().Real("~epsilon");
  if (epsilon >= 0 && epsilon <= 1) return absl::OkStatus();
  return at.Error(absl::StrCat("epsilon ", epsilon), "0 (the default) or at most 1");
}

absl::Status CheckBox(ShapeCheck& at) {
  const BoxCopy box = BoxOf(at.attributes());
  for (const auto& [name, starts] : {std::pair("x", box.from), std::pair("y", box.to)}) {
    const std::vector<int64_t>& shape = at.Operand(name).shape;
    if (shape.size() > starts.size())
      return at.Error(absl::StrCat(name, " of ", shape.size(), " dimensions"), "at most 4");
    for (size_t d = 0; d < starts.size(); ++d) {
      const int64_t most = d < shape.size() ? shape[d] : 1, extent = box.extents[d];
      if (extent >= 1 && extent <= most && starts[d] <= most - extent) continue;
      return at.Error(
          absl::StrCat("dimension ", d, " of ", name, " from ", starts[d], " of extent ", extent),
          absl::StrCat("at least 1, inside ", most));
    }
  }
  const Buffer& y = at.Operand("y");
  const double elements = BoxElements(at.attributes());
  if (y.arena != ArenaClass::kActivation || elements == Elements(&y)) return absl::OkStatus();
  return at.Error(absl::StrCat("a box of ", elements, " elements of activation y"),
                  absl::StrCat("all ", y.count()));
}

absl::Status CheckAttention(ShapeCheck& at) {
  const AttentionShape shape = AttentionOf(at.attributes());
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0) {
    return at.Error(absl::StrCat("kv_heads ", shape.kv_heads),
                    absl::StrCat("a divisor of heads ", shape.heads));
  }
  const int64_t rows = at.Rows("qkv");
  if (shape.sequence_length < 1 || rows % shape.sequence_length != 0) {
    return at.Error(absl::StrCat(rows, " rows"),
                    absl::StrCat("a multiple of ", shape.sequence_length));
  }
  at.Define("qkv", shape.qkv_columns());
  // The buffer's size bounds the products below, so they cannot overflow.
  RETURN_IF_ERROR(at.Match("qkv:T[n,qkv]"));
  at.Define("context", shape.context_columns());
  at.Define("lse", rows / shape.sequence_length * shape.heads);
  at.Define("length", shape.sequence_length);
  at.Define("scratch", AttentionScratch(shape, rows));
  return absl::OkStatus();
}

namespace {

absl::Status CheckScaling(ShapeCheck& at) {
  const int64_t number = at.attributes()["scaling"];
  const auto kind = static_cast<RotaryScaling::Kind>(number);
  if (kind == RotaryScaling::Kind::kNone) return absl::OkStatus();
  if (number > static_cast<int64_t>(RotaryScaling::Kind::kLlama3))
    return at.Error(absl::StrCat("scaling ", number), "0 (none), 1 (linear), 2 (llama3)");
  const double factor = at.attributes().Real("~factor");
  if (!(factor >= 1)) return at.Error(absl::StrCat("factor ", factor), "at least 1");
  if (kind == RotaryScaling::Kind::kLinear) return absl::OkStatus();
  const double low = at.attributes().Real("~low"), high = at.attributes().Real("~high");
  if (!(low > 0 && high > low))
    return at.Error(absl::StrCat("low ", low, " and high ", high), "0 < low < high");
  const int64_t original = at.attributes()["original"];
  if (original >= 1) return absl::OkStatus();
  return at.Error(absl::StrCat("original ", original), "at least 1");
}

}  // namespace

absl::Status CheckRotary(ShapeCheck& at) {
  RETURN_IF_ERROR(CheckScaling(at));
  return CheckAttention(at);
}

absl::Status CheckCollective(ShapeCheck& at) {
  const int64_t wire = at.attributes().Has("wire") ? at.attributes()["wire"] : 0;
  if (wire > static_cast<int64_t>(DType::kBF16))
    return at.Error(absl::StrCat("wire type ", wire), "0 (as the buffer) or 1 (bf16)");
  const CollectiveInfo& collective = InfoOf(at.info().collective);
  if (collective.in_place) return absl::OkStatus();
  const int64_t whole = at.Count(collective.in_parts ? "x" : "y");
  const int64_t ranks = static_cast<int64_t>(at.group()->ranks.size());
  if (whole % ranks != 0)
    return at.Error(absl::StrCat(whole, " elements"), absl::StrCat("a multiple of ", ranks));
  at.Define("part", collective.in_parts && collective.out_parts ? whole : whole / ranks);
  return absl::OkStatus();
}

double Bytes(const Buffer* buffer) { return static_cast<double>(buffer->bytes()); }
double Elements(const Buffer* buffer) { return static_cast<double>(buffer->count()); }
double Columns(const Buffer* buffer) { return static_cast<double>(buffer->shape.back()); }

double ElementBytes(const Buffer* buffer) { return static_cast<double>(SizeOf(buffer->dtype)); }
double BoxElements(const Attributes& at) {
  double elements = 1;
  for (int64_t extent : BoxOf(at).extents) elements *= static_cast<double>(extent);
  return elements;
}

double CausalProduct(const Attributes& at, const Buffer* context) {
  const double sequence = static_cast<double>(at["sequence"]);
  const double heads = static_cast<double>(at["heads"]);
  const double head_dim = static_cast<double>(at["head_dim"]);
  const double tokens = Elements(context) / (heads * head_dim);
  // Token i of a sequence attends to i + 1 tokens, (sequence + 1) / 2 on average.
  return tokens * (sequence + 1) / 2 * heads * head_dim;
}

double RotaryShare(const Attributes& at) {
  const double heads = static_cast<double>(at["heads"]);
  const double kv_heads = static_cast<double>(at["kv_heads"]);
  return (heads + kv_heads) / (heads + 2 * kv_heads);
}

}  // namespace stretto

#include "worker/engine/spec/spec.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

absl::Status Expect(bool ok, absl::string_view field, int64_t found, absl::string_view expected) {
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": found ", found, ", expected ", expected));
}

}  // namespace

std::vector<int> EvenSlices(int sequences, int slices) {
  std::vector<int> sizes(static_cast<size_t>(slices), sequences / slices);
  for (int i = 0; i < sequences % slices; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

absl::Status Validate(const EngineSpec& spec) {
  const ModelSpec& model = spec.model;
  const int tp = spec.tp_size;
  RETURN_IF_ERROR(Expect(tp >= 1, "tp_size", tp, "at least 1"));
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
  RETURN_IF_ERROR(Expect(model.heads % tp == 0, "tp_size", tp,
                         absl::StrCat("a divisor of heads ", model.heads)));
  RETURN_IF_ERROR(Expect(model.ffn_hidden % tp == 0, "tp_size", tp,
                         absl::StrCat("a divisor of ffn_hidden ", model.ffn_hidden)));
  RETURN_IF_ERROR(
      Expect(model.padded_vocab() % tp == 0, "tp_size", tp,
             absl::StrCat("a divisor of the padded vocabulary ", model.padded_vocab())));
  RETURN_IF_ERROR(
      Expect(spec.micro_batch_size >= 1, "micro_batch_size", spec.micro_batch_size, "at least 1"));
  RETURN_IF_ERROR(
      Expect(spec.micro_batches >= 1, "micro_batches", spec.micro_batches, "at least 1"));
  for (int size : spec.schedule.slices) {
    RETURN_IF_ERROR(
        Expect(size >= 1, "schedule.slice_sizes", size, "at least 1 sequence in a slice"));
  }
  const int total = std::accumulate(spec.schedule.slices.begin(), spec.schedule.slices.end(), 0);
  return Expect(total == spec.micro_batch_size, "schedule.slice_sizes", total,
                absl::StrCat("slices that sum to micro_batch_size ", spec.micro_batch_size,
                             ", not ", absl::StrJoin(spec.schedule.slices, "+")));
}

}  // namespace stretto

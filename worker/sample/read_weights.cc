// SPDX-License-Identifier: Apache-2.0

// Reads Decoder's weights from their source to memory.
#include <new>

#include "absl/strings/str_cat.h"
#include "proto/base/host_memory.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/sample/decoder.h"

namespace stretto {
namespace {

absl::Status TooLarge(const ModelSource& source, int64_t bytes, int64_t memory) {
  return absl::ResourceExhaustedError(absl::StrCat(source.name(), ": found weights of ",
                                                   FormatBytes(bytes), " in f32, expected at most ",
                                                   FormatBytes(memory), " of memory"));
}

}  // namespace

absl::Status Decoder::CheckGoingOn() const {
  if (!cancelled_ || !cancelled_()) return absl::OkStatus();
  return absl::CancelledError("cancelled");
}

absl::Status Decoder::ReadWeights(const ModelSource& source, const DecoderOptions& options) {
  int64_t bytes = 0;
  for (const Parameter& parameter : parameters_) {
    bytes += parameter.count() * static_cast<int64_t>(sizeof(float));
  }
  int64_t memory = options.memory_bytes;
  if (memory <= 0) {
    ASSIGN_OR_RETURN(const HostMemory host, ReadHostMemory());
    memory = host.total;
  }
  if (bytes > memory) return TooLarge(source, bytes, memory);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    RETURN_IF_ERROR(CheckGoingOn());
    const Parameter& parameter = parameters_[i];
    weights_[i].reset(new (std::nothrow) float[parameter.count()]);
    if (weights_[i] == nullptr) return TooLarge(source, bytes, memory);
    RETURN_IF_ERROR(
        source.Read(parameter.name, parameter.starts, parameter.extents, weights_[i].get()));
  }
  return absl::OkStatus();
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams the tensors of an export, one at a time.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/exchange/export_layout.h"
#include "worker/exchange/export_model.h"

namespace stretto {

// Reports progress and checks for cancellation.
class ExportMeter {
 public:
  ExportMeter(const ExportOptions& options, int64_t total_bytes)
      : options_(options), total_bytes_(total_bytes) {}

  // Errors: Cancelled.
  absl::Status Add(int64_t bytes);

 private:
  const ExportOptions& options_;
  int64_t total_bytes_, bytes_ = 0;
};

class ExportStream {
 public:
  // Borrows all arguments; `tensors` must have their types. Allocates memory for the largest
  // tensor.
  ExportStream(const ModelSource& source, const std::vector<ExportTensor>& tensors,
               ExportMeter* meter);

  // Returns the tensor's bytes, which are valid until the next call. Errors: InvalidArgument (a
  // value is too large for the type), Cancelled, those of the source.
  absl::StatusOr<const void*> Fetch(const ExportTensor& tensor);

 private:
  absl::Status FetchBlock(const ExportTensor& tensor, const ExportBox& block, int64_t begin);

  const ModelSource& source_;
  ExportMeter* meter_;
  std::vector<char> tensor_;
  std::vector<float> wide_;
  std::vector<char> narrow_;  // of a block before it is transposed
};

}  // namespace stretto

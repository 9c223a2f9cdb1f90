// SPDX-License-Identifier: Apache-2.0
#pragma once
// Documents in the sequences of a batch, as the operand of attention has them.

#include <vector>

#include "tests/kernels/testing.h"

namespace stretto {

// Where the documents of each sequence begin, ascending from 0.
using DocumentBegins = std::vector<std::vector<int64_t>>;

// Returns where the document of each token begins; without sequences, an operand that is absent.
inline Tensor TensorOf(const DocumentBegins& begins, int64_t length) {
  Tensor documents(DType::kI32, static_cast<int64_t>(begins.size()) * length, 1);
  int64_t row = 0;
  for (const std::vector<int64_t>& of_sequence : begins) {
    size_t document = 0;
    for (int64_t at = 0; at < length; ++at) {
      while (document + 1 < of_sequence.size() && of_sequence[document + 1] <= at) ++document;
      documents.Set(row++, static_cast<double>(of_sequence[document]));
    }
  }
  return documents;
}
inline TensorView OperandOf(Tensor& documents, int64_t first, int64_t rows) {
  return documents.count() == 0 ? TensorView{} : documents.Rows(first, rows);
}

}  // namespace stretto

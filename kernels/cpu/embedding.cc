// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

namespace {

// Returns the token's row in a table of `rows` rows that starts at vocab.start, or -1.
int64_t LocalRow(int32_t token, const VocabShard& vocab, int64_t rows) {
  const int64_t row = token - vocab.start;
  return row >= 0 && row < rows ? row : -1;
}

// sum += row
template <class T>
void AddRow(const T* row, int64_t count, float* sum) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) sum[i] += ToFloat(row[i]);
}

}  // namespace

void CpuOps::Embed(TensorView tokens, TensorView table, VocabShard vocab, TensorView y) {
  STRETTO_CHECK(tokens.dtype == DType::kI32 && tokens.count() == y.rows());
  STRETTO_CHECK(table.dtype == y.dtype && table.columns() == y.columns());
  const auto* token = tokens.as<int32_t>();
  const size_t row_bytes = y.columns() * SizeOf(y.dtype);
  const auto* from = static_cast<const char*>(table.data);
  auto* to = static_cast<char*>(y.data);
  for (int64_t i = 0; i < y.rows(); ++i, to += row_bytes) {
    const int64_t row = LocalRow(token[i], vocab, table.rows());
    if (row < 0) {
      std::memset(to, 0, row_bytes);
    } else {
      std::memcpy(to, from + row * row_bytes, row_bytes);
    }
  }
}

void CpuOps::EmbedGrad(TensorView tokens, TensorView dx, VocabShard vocab, TensorView dtable) {
  STRETTO_CHECK(tokens.dtype == DType::kI32 && tokens.count() == dx.rows());
  STRETTO_CHECK(dtable.dtype == DType::kF32 && dtable.columns() == dx.columns());
  const auto* token = tokens.as<int32_t>();
  const int64_t columns = dx.columns();
  WithType(dx.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < dx.rows(); ++i) {
      const int64_t row = LocalRow(token[i], vocab, dtable.rows());
      if (row >= 0) AddRow(dx.as<T>() + i * columns, columns, dtable.as<float>() + row * columns);
    }
  });
}

void CpuOps::AddPosition(TensorView position, int64_t first_token, TensorView x) {
  STRETTO_CHECK(position.dtype == x.dtype && position.columns() == x.columns());
  const int64_t columns = x.columns();
  WithType(x.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < x.rows(); ++row) {
      const T* p = position.as<T>() + (first_token + row) % position.rows() * columns;
      T* y = x.as<T>() + row * columns;
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) y[i] = FromFloat<T>(ToFloat(y[i]) + ToFloat(p[i]));
    }
  });
}

void CpuOps::PositionGrad(TensorView dx, int64_t first_token, TensorView dposition) {
  STRETTO_CHECK(dposition.dtype == DType::kF32 && dposition.columns() == dx.columns());
  const int64_t columns = dx.columns();
  WithType(dx.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t row = 0; row < dx.rows(); ++row) {
      AddRow(dx.as<T>() + row * columns, columns,
             dposition.as<float>() + (first_token + row) % dposition.rows() * columns);
    }
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS

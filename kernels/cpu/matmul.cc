// SPDX-License-Identifier: Apache-2.0

// Matrix products by oneDNN, compiled once per thread and shape. Rows are multiplied in blocks of a
// fixed size, because for another number of rows the library may add in another order and give
// other bits; the last rows are padded to a block. f32 weights are packed once into the library's
// own layout and kept until they change (packed_weights.h); bf16 weights are read as they are.

#include "kernels/cpu/matmul.h"

#include <omp.h>

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/packed_weights.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/thread_buffers.h"
#include "proto/base/check.h"

namespace stretto {

namespace cpu {

namespace {

using dnnl::memory;

// The rows of one product. Slices have any number of rows, and for another number oneDNN may block
// k in another way and give other bits. So there are two sizes, and the large one is used only if
// its bits are those of the small one. On one Sapphire Rapids core f32 with packed weights reaches
// 90 % of the peak at 256 rows and 80 % at 64.
constexpr int64_t kSmallBlock = 64, kLargeBlock = 256;

// A product for one shape and weight form.
class RowEntry {
 public:
  RowEntry(const dnnl::engine& engine, const RowProduct& key)
      : key_(key),
        stored_({key.k, key.n}, TypeOf(key.w_dtype),
                key.transposed ? memory::dims{1, key.w_columns} : memory::dims{key.w_columns, 1}),
        small_(Make(engine, kSmallBlock, WeightDesc())) {
    if (small_.weight_desc() != stored_) {
      conversion_.emplace(engine, stored_, small_.weight_desc());
    }
  }

  const RowProduct& key() const { return key_; }
  Conversion* conversion() { return conversion_ ? &*conversion_ : nullptr; }
  Product& small() { return small_; }
  // Returns null if its bits differ from those of the small block.
  Product* large(const dnnl::engine& engine, const dnnl::stream& stream) {
    if (!tried_large_) TryLarge(engine, stream);
    tried_large_ = true;
    return large_ ? &*large_ : nullptr;
  }

 private:
  // f32 runs up to twice as fast on packed weights; bf16 runs twice as fast on plain ones.
  memory::desc WeightDesc() const {
    if (key_.dtype == DType::kBF16) return stored_;
    return memory::desc({key_.k, key_.n}, TypeOf(key_.dtype), memory::format_tag::any);
  }
  Product Make(const dnnl::engine& engine, int64_t rows, const memory::desc& weight) const {
    const memory::desc bias = Dense(1, key_.n, key_.dtype);
    return Product(engine, Dense(rows, key_.k, key_.dtype), weight, key_.bias ? &bias : nullptr,
                   Dense(rows, key_.n, key_.dtype), false);
  }
  void TryLarge(const dnnl::engine& engine, const dnnl::stream& stream);

  RowProduct key_;
  memory::desc stored_;
  Product small_;
  std::optional<Conversion> conversion_;  // none: the product reads the stored weight
  std::optional<Product> large_;
  bool tried_large_ = false;
};

// Fills memory of either type with numbers in [-1, 1); they suit any layout of a matrix.
void FillNumbers(DType dtype, std::vector<char>* bytes) {
  uint32_t state = 1;
  const size_t size = SizeOf(dtype);
  for (size_t at = 0; at + size <= bytes->size(); at += size) {
    state = state * 1664525u + 1013904223u;
    const float value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    const BF16 rounded = ToBF16(value);
    std::memcpy(bytes->data() + at,
                dtype == DType::kBF16 ? static_cast<const void*>(&rounded) : &value, size);
  }
}

void RowEntry::TryLarge(const dnnl::engine& engine, const dnnl::stream& stream) {
  Product large = Make(engine, kLargeBlock, small_.weight_desc());
  const auto element = static_cast<int64_t>(SizeOf(key_.dtype));
  const int64_t x_row = key_.k * element, y_row = key_.n * element;
  std::vector<char> x(kLargeBlock * x_row), w(small_.weight_desc().get_size());
  std::vector<char> bias(y_row);
  std::vector<char> whole(kLargeBlock * y_row), parts(whole.size());
  for (std::vector<char>* bytes : {&x, &w, &bias}) FillNumbers(key_.dtype, bytes);
  large.SetWeight(w.data(), bias.data());
  large.Run(stream, x.data(), whole.data());
  small_.SetWeight(w.data(), bias.data());
  for (int64_t row = 0; row < kLargeBlock; row += kSmallBlock) {
    small_.Run(stream, x.data() + row * x_row, parts.data() + row * y_row);
  }
  if (whole == parts) large_ = std::move(large);
}

bool Has(unsigned isa) {
  static const auto effective = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  return (effective & isa) == isa;
}

struct OuterEntry {
  std::array<int64_t, 3> key;
  Product product;
};

// All objects of oneDNN that one thread uses. Deques, because entries hold handles to their own
// members.
struct ThreadProducts {
  ThreadProducts() { omp_set_num_threads(1); }

  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::deque<RowEntry> rows;
  std::deque<OuterEntry> outers;
};

ThreadProducts& OfThisThread() {
  thread_local ThreadProducts products;
  return products;
}

RowEntry& Find(ThreadProducts& thread, const RowProduct& key) {
  for (RowEntry& entry : thread.rows) {
    if (entry.key() == key) return entry;
  }
  return thread.rows.emplace_back(thread.engine, key);
}

// Multiplies blocks of rows; the last rows are padded to a small block.
void RunRows(const dnnl::stream& stream, const RowProduct& key, Product& small, Product* large,
             int64_t rows, const char* x, char* y) {
  const auto element = static_cast<int64_t>(SizeOf(key.dtype));
  const int64_t x_row = key.k * element, y_row = key.n * element;
  int64_t row = 0;
  for (; large && row + kLargeBlock <= rows; row += kLargeBlock) {
    large->Run(stream, x + row * x_row, y + row * y_row);
  }
  for (; row + kSmallBlock <= rows; row += kSmallBlock) {
    small.Run(stream, x + row * x_row, y + row * y_row);
  }
  const int64_t tail = rows - row;
  if (tail == 0) return;
  const auto buffer = [](Buffer use, int64_t bytes) {
    return static_cast<char*>(ThreadBuffer(use, bytes));
  };
  char* const in = buffer(Buffer::kTailIn, kSmallBlock * x_row);
  char* const out = buffer(Buffer::kTailOut, kSmallBlock * y_row);
  std::memcpy(in, x + row * x_row, tail * x_row);
  std::memset(in + tail * x_row, 0, (kSmallBlock - tail) * x_row);
  small.Run(stream, in, out);
  std::memcpy(y + row * y_row, out, tail * y_row);
}

}  // namespace

void MultiplyRows(const RowProduct& key, int64_t rows, const void* x, const void* w,
                  const void* bias, void* y, PackedWeights* packed) {
  if (rows == 0) return;
  ThreadProducts& thread = OfThisThread();
  RowEntry& entry = Find(thread, key);
  Product* const large = rows < kLargeBlock ? nullptr : entry.large(thread.engine, thread.stream);
  std::optional<PackedWeights::Lease> lease;
  if (Conversion* const conversion = entry.conversion()) {
    lease.emplace(packed->Get({w, key}, conversion->bytes(),
                              [&](void* memory) { conversion->Run(thread.stream, w, memory); }));
  }
  const void* const weight = lease ? lease->data() : w;
  if (large) large->SetWeight(weight, bias);
  entry.small().SetWeight(weight, bias);
  RunRows(thread.stream, key, entry.small(), large, rows, static_cast<const char*>(x),
          static_cast<char*>(y));
}

void AccumulateOuterBF16(int64_t n, int64_t c, int64_t k, const void* dy, const void* x,
                         float* dw) {
  if (n == 0) return;
  ThreadProducts& thread = OfThisThread();
  const std::array<int64_t, 3> key = {n, c, k};
  OuterEntry* found = nullptr;
  for (OuterEntry& entry : thread.outers) {
    if (entry.key == key) found = &entry;
  }
  if (found == nullptr) {
    const DType bf16 = DType::kBF16;
    found = &thread.outers.emplace_back(
        OuterEntry{key, Product(thread.engine, Dense(c, n, bf16, true), Dense(n, k, bf16), nullptr,
                                Dense(c, k, DType::kF32), true)});
  }
  found->product.SetWeight(x, nullptr);
  found->product.Run(thread.stream, dy, dw);
}

void Multiply(int64_t m, int64_t n, int64_t k, float alpha, const Operand& a, const Operand& b,
              float beta, float* c, int64_t ldc) {
  OfThisThread();  // sets the OpenMP team of this thread to one
  STRETTO_CHECK(dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, alpha,
                           a.data, a.ld, b.data, b.ld, beta, c, ldc) == dnnl_success);
}

bool HasAvx512() { return Has(dnnl_cpu_isa_avx512_core); }
bool HasBF16Matmul() { return Has(dnnl_cpu_isa_avx512_core_bf16); }
bool HasFastBF16Matmul() { return Has(dnnl_cpu_isa_avx512_core_amx); }

}  // namespace cpu

std::string CpuIsa() {
  const auto name = [] {
    switch (dnnl_get_effective_cpu_isa()) {
      case dnnl_cpu_isa_sse41:
        return "sse41";
      case dnnl_cpu_isa_avx:
        return "avx";
      case dnnl_cpu_isa_avx2:
        return "avx2";
      case dnnl_cpu_isa_avx2_vnni:
        return "avx2_vnni";
      case dnnl_cpu_isa_avx512_core:
        return "avx512_core";
      case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_core_vnni";
      case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_core_bf16";
      case dnnl_cpu_isa_avx512_core_amx:
        return "avx512_core_amx";
      default:  // any other ISA of oneDNN
        return "other";
    }
  };
  const dnnl_version_t& version = *dnnl_version();
  return "oneDNN " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch) + " " + name() +
         (cpu::HasFastBF16Matmul() ? ", bf16 native" : ", bf16 in f32");
}

}  // namespace stretto

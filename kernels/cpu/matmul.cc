#include "kernels/cpu/matmul.h"

#include <omp.h>

#include <array>
#include <cstring>
#include <deque>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/thread_buffers.h"
#include "proto/base/check.h"

namespace stretto {

namespace cpu {

namespace {

using dnnl::memory;

// Rows of one product. oneDNN may choose another blocking of k for another number of rows, and with
// it other bits, so there is only this one; the last rows are padded. On one Sapphire Rapids core
// 64 is as fast as any larger number in f32 with packed weights; bf16 loses a fifth at 64.
constexpr int64_t RowBlock(DType dtype) { return dtype == DType::kBF16 ? 128 : 64; }

memory::data_type TypeOf(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc Dense(int64_t rows, int64_t columns, memory::data_type type, bool transposed = false) {
  const memory::dims strides = transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
  return memory::desc({rows, columns}, type, strides);
}

dnnl_exec_arg_t Argument(int name, const memory& memory) { return {name, memory.get()}; }

void SetData(const memory& memory, const void* data) {
  memory.set_data_handle(const_cast<void*>(data));
}

// A matmul with its memory objects; operands are set at each run.
class Product {
 public:
  Product(const dnnl::engine& engine, const memory::desc& x, const memory::desc& w,
          const memory::desc* bias, const memory::desc& y, bool accumulate)
      : descriptor_(Describe(engine, x, w, bias, y, accumulate)),
        primitive_(descriptor_),
        x_(descriptor_.src_desc(), engine, nullptr),
        w_(descriptor_.weights_desc(), engine, nullptr),
        bias_(bias ? *bias : memory::desc(), engine, nullptr),
        y_(descriptor_.dst_desc(), engine, nullptr),
        scratchpad_(descriptor_.scratchpad_desc(), engine, nullptr),
        scratchpad_bytes_(descriptor_.scratchpad_desc().get_size()),
        arguments_{Argument(DNNL_ARG_SRC, x_), Argument(DNNL_ARG_WEIGHTS, w_),
                   Argument(DNNL_ARG_DST, y_), Argument(DNNL_ARG_SCRATCHPAD, scratchpad_),
                   Argument(DNNL_ARG_BIAS, bias_)},
        argument_count_(bias ? 5 : 4) {}

  void SetWeight(const void* w, const void* bias) {
    SetData(w_, w);
    if (argument_count_ == 5) SetData(bias_, bias);
    SetData(scratchpad_, ThreadBuffer(Buffer::kScratchpad, scratchpad_bytes_));
  }

  void Run(const dnnl::stream& stream, const void* x, void* y) {
    SetData(x_, x);
    SetData(y_, y);
    STRETTO_CHECK(dnnl_primitive_execute(primitive_.get(), stream.get(), argument_count_,
                                         arguments_.data()) == dnnl_success);
  }

  memory::desc weight_desc() const { return descriptor_.weights_desc(); }

 private:
  static dnnl::matmul::primitive_desc Describe(const dnnl::engine& engine, const memory::desc& x,
                                               const memory::desc& w, const memory::desc* bias,
                                               const memory::desc& y, bool accumulate) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (accumulate) {
      dnnl::post_ops post_ops;
      post_ops.append_sum(1.0f);
      attributes.set_post_ops(post_ops);
    }
    return {bias ? dnnl::matmul::desc(x, w, *bias, y) : dnnl::matmul::desc(x, w, y), attributes,
            engine};
  }

  dnnl::matmul::primitive_desc descriptor_;
  dnnl::matmul primitive_;
  memory x_, w_, bias_, y_, scratchpad_;
  size_t scratchpad_bytes_;
  std::array<dnnl_exec_arg_t, 5> arguments_;
  int argument_count_;
};

// The conversion of a weight into the layout that a product reads fastest.
class Packing {
 public:
  Packing(const dnnl::engine& engine, const memory::desc& from, const memory::desc& to)
      : primitive_({engine, from, engine, to}),
        from_(from, engine, nullptr),
        to_(to, engine, nullptr),
        bytes_(to.get_size()),
        arguments_{Argument(DNNL_ARG_FROM, from_), Argument(DNNL_ARG_TO, to_)} {}

  const void* Run(const dnnl::stream& stream, const void* weight) {
    void* packed = ThreadBuffer(Buffer::kPackedWeight, bytes_);
    SetData(from_, weight);
    SetData(to_, packed);
    STRETTO_CHECK(dnnl_primitive_execute(primitive_.get(), stream.get(), 2, arguments_.data()) ==
                  dnnl_success);
    return packed;
  }

 private:
  dnnl::reorder primitive_;
  memory from_, to_;
  size_t bytes_;
  std::array<dnnl_exec_arg_t, 2> arguments_;
};

struct RowEntry {
  RowProduct key;
  Product product;
  std::optional<Packing> packing;  // none: the product reads the plain weight
};

struct OuterEntry {
  std::array<int64_t, 3> key;
  Product product;
};

// Everything of oneDNN that one thread uses. Deques: entries hold handles to their own members.
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
    if (entry.key == key) return entry;
  }
  const memory::data_type type = TypeOf(key.dtype);
  const int64_t block = RowBlock(key.dtype);
  const memory::desc plain = Dense(key.k, key.n, type, key.transposed);
  // f32 runs up to twice as fast on packed weights; bf16 runs twice as fast on plain ones.
  const memory::desc weight = key.dtype == DType::kBF16
                                  ? plain
                                  : memory::desc({key.k, key.n}, type, memory::format_tag::any);
  const memory::desc bias = Dense(1, key.n, type);
  Product product(thread.engine, Dense(block, key.k, type), weight, key.bias ? &bias : nullptr,
                  Dense(block, key.n, type), false);
  const memory::desc packed = product.weight_desc();
  RowEntry& entry = thread.rows.emplace_back(RowEntry{key, std::move(product), std::nullopt});
  if (packed != plain) entry.packing.emplace(thread.engine, plain, packed);
  return entry;
}

}  // namespace

void MultiplyRows(const RowProduct& key, int64_t rows, const void* x, const void* w,
                  const void* bias, void* y) {
  if (rows == 0) return;
  ThreadProducts& thread = OfThisThread();
  RowEntry& entry = Find(thread, key);
  entry.product.SetWeight(entry.packing ? entry.packing->Run(thread.stream, w) : w, bias);

  const auto element = static_cast<int64_t>(SizeOf(key.dtype));
  const int64_t x_row = key.k * element, y_row = key.n * element;
  const char* from = static_cast<const char*>(x);
  char* to = static_cast<char*>(y);
  const int64_t block = RowBlock(key.dtype);
  const int64_t whole = rows / block * block, tail = rows - whole;
  for (int64_t row = 0; row < whole; row += block) {
    entry.product.Run(thread.stream, from + row * x_row, to + row * y_row);
  }
  if (tail == 0) return;
  auto* in = static_cast<char*>(ThreadBuffer(Buffer::kTailIn, static_cast<size_t>(block * x_row)));
  auto* out =
      static_cast<char*>(ThreadBuffer(Buffer::kTailOut, static_cast<size_t>(block * y_row)));
  std::memcpy(in, from + whole * x_row, static_cast<size_t>(tail * x_row));
  std::memset(in + tail * x_row, 0, static_cast<size_t>((block - tail) * x_row));
  entry.product.Run(thread.stream, in, out);
  std::memcpy(to + whole * y_row, out, static_cast<size_t>(tail * y_row));
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
    const auto bf16 = memory::data_type::bf16;
    found = &thread.outers.emplace_back(
        OuterEntry{key, Product(thread.engine, Dense(c, n, bf16, true), Dense(n, k, bf16), nullptr,
                                Dense(c, k, memory::data_type::f32), true)});
  }
  found->product.SetWeight(x, nullptr);
  found->product.Run(thread.stream, dy, dw);
}

void Multiply(int64_t m, int64_t n, int64_t k, float alpha, const Operand& a, const Operand& b,
              float beta, float* c, int64_t ldc) {
  OfThisThread();  // one thread
  STRETTO_CHECK(dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, alpha,
                           a.data, a.ld, b.data, b.ld, beta, c, ldc) == dnnl_success);
}

bool HasBF16Matmul() {
  constexpr unsigned kNeeded = dnnl_cpu_isa_avx512_core_bf16;
  static const bool has =
      (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kNeeded) == kNeeded;
  return has;
}

}  // namespace cpu

std::string CpuIsa() {
  const auto name = [] {
    switch (dnnl_get_effective_cpu_isa()) {
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
      default:
        return "other";
    }
  };
  const dnnl_version_t& version = *dnnl_version();
  return "oneDNN " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch) + " " + name() +
         (cpu::HasBF16Matmul() ? ", bf16 native" : ", bf16 in f32");
}

}  // namespace stretto

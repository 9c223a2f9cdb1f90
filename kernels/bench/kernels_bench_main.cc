// stretto-kernels-bench: time and rate of each operation, at the shapes of a GPT layer with
// tp_size 2. Prints the median of several runs on the calling thread; pin it to a core (taskset -c
// 1). Rates: GF/s counts 2 per multiply-add; GB/s counts each operand once. "gemm" marks matrix
// products.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_ops.h"

namespace stretto {
namespace {

struct Config {
  int64_t hidden = 384;
  int64_t tokens = 1024;
  int64_t sequence = 256;
  int64_t vocab = 192;  // on this rank
  DType dtype = DType::kF32;
};

class Bench {
 public:
  explicit Bench(const Config& config) : config_(config), ops_(MakeCpuOps()) {}

  void Run();

 private:
  TensorView Tensor(DType dtype, int64_t rows, int64_t columns);
  TensorView Of(int64_t rows, int64_t columns) { return Tensor(config_.dtype, rows, columns); }
  TensorView F32(int64_t rows, int64_t columns) { return Tensor(DType::kF32, rows, columns); }

  double Median(const std::function<void()>& f);
  void Linear(const char* name, int64_t n, int64_t k, bool in_layer);
  void Loop(const char* name, int64_t bytes, int times_in_layer, const std::function<void()>& f);
  void Attention(int64_t heads);
  void Loops();
  void Head();

  const Config config_;
  std::unique_ptr<Ops> ops_;
  std::deque<std::vector<float>> memory_;
  double gemm_seconds_ = 0;
  double other_seconds_ = 0;
};

TensorView Bench::Tensor(DType dtype, int64_t rows, int64_t columns) {
  TensorView view{.dtype = dtype, .shape = {rows, columns, 1, 1}, .rank = 2};
  std::vector<float>& storage = memory_.emplace_back(static_cast<size_t>(rows * columns));
  view.data = storage.data();
  uint32_t state = 1;
  for (int64_t i = 0; i < view.count(); ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    if (dtype == DType::kI32) view.as<int32_t>()[i] = static_cast<int32_t>(state >> 8) % 128;
    if (dtype == DType::kF32) view.as<float>()[i] = value;
    if (dtype == DType::kBF16)
      view.as<uint16_t>()[i] = static_cast<uint16_t>(0x3f00 + (state >> 26));
  }
  return view;
}

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double Bench::Median(const std::function<void()>& f) {
  f();
  std::vector<double> seconds;
  for (int i = 0; i < 15; ++i) {
    const double start = CpuSeconds();
    f();
    seconds.push_back(CpuSeconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void Bench::Linear(const char* name, int64_t n, int64_t k, bool in_layer) {
  const int64_t m = config_.tokens;
  const TensorView x = Of(m, k), w = Of(n, k), bias = Of(1, n), y = Of(m, n), dw = F32(n, k);
  const double flops = 2.0 * static_cast<double>(m * n * k);
  const auto row = [&](const char* kind, const std::function<void()>& f) {
    const double seconds = Median(f);
    if (in_layer) gemm_seconds_ += seconds;
    std::printf("%-10s %-8s M=%-5ld N=%-5ld K=%-5ld %9.0f us %7.1f GF/s  gemm\n", name, kind, m, n,
                k, seconds * 1e6, flops / seconds * 1e-9);
  };
  row("forward", [&] { ops_->Gemm(x, w, bias, y); });
  row("dgrad", [&] { ops_->GemmDgrad(y, w, x); });
  row("wgrad", [&] { ops_->GemmWgrad(y, x, dw); });
}

void Bench::Loop(const char* name, int64_t bytes, int times_in_layer,
                 const std::function<void()>& f) {
  const double seconds = Median(f);
  other_seconds_ += times_in_layer * seconds;
  std::printf("%-19s x%d in a layer %22s %9.0f us %7.1f GB/s\n", name, times_in_layer, "",
              seconds * 1e6, static_cast<double>(bytes) / seconds * 1e-9);
}

void Bench::Attention(int64_t heads) {
  const AttentionShape shape{.sequence_length = config_.sequence, .heads = heads, .head_dim = 64};
  const int64_t n = config_.tokens, width = heads * shape.head_dim;
  const TensorView qkv = Of(n, 3 * width), context = Of(n, width), lse = F32(n, heads);
  const TensorView dcontext = Of(n, width), dqkv = Of(n, 3 * width);
  const TensorView scratch = F32(1, AttentionScratch(shape));
  const double pairs = static_cast<double>(n * (shape.sequence_length + 1) / 2 * width);
  const auto row = [&](const char* kind, double products, const std::function<void()>& f) {
    const double seconds = Median(f);
    other_seconds_ += seconds;
    std::printf("%-10s %-8s s=%-5ld heads=%-2ld d=%-6ld %8.0f us %7.1f GF/s  (causal flops)\n",
                "attention", kind, shape.sequence_length, heads, shape.head_dim, seconds * 1e6,
                2 * products * pairs / seconds * 1e-9);
  };
  row("forward", 2, [&] { ops_->Attention(shape, qkv, context, lse, scratch); });
  row("backward", 5,
      [&] { ops_->AttentionGrad(shape, dcontext, qkv, context, lse, dqkv, scratch); });
}

void Bench::Loops() {
  const int64_t n = config_.tokens, h = config_.hidden, inner = 2 * h;
  const auto size = static_cast<int64_t>(SizeOf(config_.dtype));
  const TensorView x = Of(n, h), y = Of(n, h), dy = Of(n, h), w = Of(1, h), b = Of(1, h);
  const TensorView stats = F32(n, 2), dw = F32(1, h), db = F32(1, h);
  const TensorView u = Of(n, inner), a = Of(n, inner), dqkv = Of(n, 3 * h / 2);
  const TensorView dinner = F32(1, inner), dqkv_bias = F32(1, 3 * h / 2);
  Loop("layer_norm", 2 * n * h * size, 2, [&] { ops_->LayerNorm(x, w, b, y, stats); });
  Loop("layer_norm_dgrad", 4 * n * h * size, 2,
       [&] { ops_->LayerNormDgrad(dy, x, w, stats, y, y); });
  Loop("layer_norm_wgrad", 2 * n * h * size, 2,
       [&] { ops_->LayerNormWgrad(dy, x, stats, dw, db); });
  Loop("bias_residual", 3 * n * h * size, 2, [&] { ops_->BiasResidual(dy, b, x, y); });
  Loop("bias_grad h", n * h * size, 2, [&] { ops_->BiasGrad(dy, db); });
  Loop("bias_grad qkv", n * 3 * h / 2 * size, 1, [&] { ops_->BiasGrad(dqkv, dqkv_bias); });
  Loop("bias_grad fc1", n * inner * size, 1, [&] { ops_->BiasGrad(u, dinner); });
  Loop("gelu", 2 * n * inner * size, 1, [&] { ops_->Gelu(u, a); });
  Loop("gelu_grad", 3 * n * inner * size, 1, [&] { ops_->GeluGrad(u, a, a); });
}

void Bench::Head() {
  const int64_t n = config_.tokens, v = config_.vocab, h = config_.hidden;
  const VocabShard vocab{.start = 0, .size = v};
  const auto size = static_cast<int64_t>(SizeOf(config_.dtype));
  const TensorView logits = Of(n, v), max = F32(n, 1), sums = F32(n, 2);
  const TensorView targets = Tensor(DType::kI32, n, 1), scalars = F32(1, kScalarCount);
  const TensorView table = Of(v, h), y = Of(n, h), dtable = F32(v, h);
  Linear("head", v, h, false);
  Loop("cross_entropy_max", n * v * size, 0, [&] { ops_->CrossEntropyMax(logits, vocab, max); });
  Loop("cross_entropy_sum", n * v * size, 0,
       [&] { ops_->CrossEntropySum(logits, max, targets, vocab, sums); });
  Loop("cross_entropy_grad", 2 * n * v * size, 0,
       [&] { ops_->CrossEntropyGrad(max, sums, targets, scalars, vocab, logits); });
  Loop("embed", n * h * size, 0, [&] { ops_->Embed(targets, table, vocab, y); });
  Loop("embed_grad", n * h * size, 0, [&] { ops_->EmbedGrad(targets, y, vocab, dtable); });
  const int64_t count = 4 * h * h;
  const TensorView g = F32(count, 1), m1 = F32(count, 1), m2 = F32(count, 1),
                   master = F32(count, 1);
  const TensorView weight = Of(count, 1), out = F32(1, 1), state = F32(1, kClipStateCount);
  std::fill_n(m2.as<float>(), count, 0.5f);
  std::fill_n(scalars.as<float>(), static_cast<int64_t>(kScalarCount), 0.5f);
  std::fill_n(state.as<float>(), static_cast<int64_t>(kClipStateCount), 1.0f);
  Loop("sum_squares", count * 4, 0, [&] { ops_->SumSquares(g, out); });
  Loop("adamw", count * (28 + size), 0,
       [&] { ops_->AdamW(g, state, scalars, true, master, m1, m2, weight); });
}

void Bench::Run() {
  const int64_t h = config_.hidden;
  std::printf("\n-- %s h=%ld tp=2 n=%ld s=%ld\n", NameOf(config_.dtype), h, config_.tokens,
              config_.sequence);
  Linear("qkv", 3 * h / 2, h, true);
  Linear("proj", h, h / 2, true);
  Linear("fc1", 2 * h, h, true);
  Linear("fc2", h, 2 * h, true);
  Attention(h / 128);
  Loops();
  std::printf("layer, forward and backward: gemm %.1f ms, other %.1f ms (%.0f %% of gemm)\n",
              gemm_seconds_ * 1e3, other_seconds_ * 1e3, 100 * other_seconds_ / gemm_seconds_);
  Head();
}

int Main() {
  std::string why;
  if (!CpuSupported(&why)) {
    std::fprintf(stderr, "stretto-kernels-bench: %s\n", why.c_str());
    return EXIT_FAILURE;
  }
  std::printf("%s, one thread, medians of 15\n", CpuIsa().c_str());
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t hidden : {384, 768}) {
      for (const int64_t tokens : {1024, 2048}) {
        Bench({.hidden = hidden, .tokens = tokens, .dtype = dtype}).Run();
      }
    }
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace stretto

int main() { return stretto::Main(); }

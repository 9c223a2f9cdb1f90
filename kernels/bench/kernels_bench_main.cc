// stretto-kernels-bench: what share of a GPT layer's time its matrix products have.
//
//   stretto-kernels-bench [--hidden=768] [--heads=12] [--sequence=256] [--tokens=2048] [--tp=1]
//                         [--slices=1] [--vocab=8192] [--dropout=0] [--dtype=f32] [--passes=15]
//                         [--ends]
//
// Runs the operations of one rank in the order of a step, forward and backward, each on its own
// tensors, so that they are as cold as in a step; weights count as changed before each pass. Times
// are CPU seconds of the calling thread, medians over passes, summed over slices; pin it to a core
// (taskset -c 1). Rates: GF/s counts 2 per multiply-add (attention: causal pairs only), GB/s counts
// each operand once. --ends adds embedding, head, loss and optimizer, outside the share.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "kernels/bench/gpt_layer.h"
#include "kernels/cpu/cpu_ops.h"

namespace stretto {
namespace {

struct Line {
  std::string name;
  bool gemm = false;
  int64_t work = 0;
  double seconds = 0;
};

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One line per name, in the order of first appearance.
std::vector<Line> Time(const std::vector<TimedOp>& list, int64_t passes, Ops* ops) {
  std::vector<std::vector<double>> seconds(list.size());
  for (int64_t pass = 0; pass <= passes; ++pass) {
    ops->WeightsChanged();
    for (size_t i = 0; i < list.size(); ++i) {
      const double start = CpuSeconds();
      list[i].run();
      if (pass > 0) seconds[i].push_back(CpuSeconds() - start);
    }
  }
  std::vector<Line> lines;
  std::map<std::string, size_t> at;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto [found, added] = at.try_emplace(list[i].name, lines.size());
    if (added) lines.push_back({.name = list[i].name, .gemm = list[i].gemm});
    lines[found->second].work += list[i].work;
    lines[found->second].seconds += MedianOf(seconds[i]);
  }
  return lines;
}

void Print(const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    const bool flops = line.gemm || line.name.starts_with("attention");
    std::printf("  %-20s %-5s %9.0f us %7.1f %s\n", line.name.c_str(), line.gemm ? "gemm" : "",
                line.seconds * 1e6, static_cast<double>(line.work) / line.seconds * 1e-9,
                flops ? "GF/s" : "GB/s");
  }
}

void PrintShare(const std::vector<Line>& lines) {
  double gemm = 0, all = 0;
  int64_t flops = 0;
  for (const Line& line : lines) {
    all += line.seconds;
    if (line.gemm) gemm += line.seconds, flops += line.work;
  }
  std::printf("  gemm %.2f ms (%.1f GF/s), all %.2f ms, share %.3f\n", gemm * 1e3,
              static_cast<double>(flops) / gemm * 1e-9, all * 1e3, gemm / all);
}

struct Flags {
  LayerConfig layer;
  int64_t passes = 15;
  bool ends = false;
};

bool Parse(const std::string& argument, Flags* flags) {
  const size_t equals = argument.find('=');
  if (argument == "--ends") return flags->ends = true;
  if (equals == std::string::npos) return false;
  const std::string name = argument.substr(0, equals), value = argument.substr(equals + 1);
  LayerConfig& layer = flags->layer;
  const std::map<std::string, int64_t*> numbers = {
      {"--hidden", &layer.hidden},     {"--heads", &layer.heads},   {"--tokens", &layer.tokens},
      {"--sequence", &layer.sequence}, {"--tp", &layer.tp},         {"--slices", &layer.slices},
      {"--vocab", &layer.vocab},       {"--passes", &flags->passes}};
  if (const auto found = numbers.find(name); found != numbers.end()) {
    *found->second = std::atoll(value.c_str());
    return *found->second > 0;
  }
  if (name == "--dropout") layer.dropout = std::atof(value.c_str());
  if (name == "--dtype") layer.dtype = value == "bf16" ? DType::kBF16 : DType::kF32;
  return name == "--dropout" || (name == "--dtype" && value == NameOf(layer.dtype));
}

bool Divides(const LayerConfig& layer) {
  return layer.hidden % layer.heads == 0 && layer.heads % layer.tp == 0 &&
         layer.vocab % layer.tp == 0 && layer.tokens % layer.slices == 0 &&
         layer.slice_rows() % layer.sequence == 0;
}

int Main(int argc, char** argv) {
  std::string why;
  if (!CpuSupported(&why)) {
    std::fprintf(stderr, "stretto-kernels-bench: %s\n", why.c_str());
    return EXIT_FAILURE;
  }
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (Parse(argv[i], &flags)) continue;
    std::fprintf(stderr, "stretto-kernels-bench: bad argument %s\n", argv[i]);
    return EXIT_FAILURE;
  }
  const LayerConfig& layer = flags.layer;
  if (!Divides(layer)) {
    std::fprintf(stderr,
                 "stretto-kernels-bench: hidden / heads, heads / tp, vocab / tp and tokens "
                 "/ slices / sequence must be whole\n");
    return EXIT_FAILURE;
  }
  std::printf("%s\n%s h=%ld heads=%ld s=%ld n=%ld tp=%ld slices=%ld dropout=%g\n", CpuIsa().c_str(),
              NameOf(layer.dtype), layer.hidden, layer.heads, layer.sequence, layer.tokens,
              layer.tp, layer.slices, layer.dropout);
  const std::unique_ptr<Ops> ops = MakeCpuOps();
  Memory memory;
  const std::vector<Line> lines =
      Time(GptLayer(layer, ops.get(), &memory), flags.passes, ops.get());
  Print(lines);
  PrintShare(lines);
  if (flags.ends) Print(Time(GptEnds(layer, ops.get(), &memory), flags.passes, ops.get()));
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) { return stretto::Main(argc, argv); }

#pragma once
// The flags of `stretto-bench sim` as they are given, each checked by itself.

#include <string>

namespace CLI {
class App;
}

namespace stretto {

// 0 and empty: not given, except where the default stands here.
struct SimFlags {
  std::string preset = "gpt-10m", family, schedule = "megatron_sync", dtype = "f32", wire;
  std::string recompute = "none", grid = "layer", costs;
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, sequence = 0, vocab = 0;
  int slices = 0, splits = 0, defer_wgrads = 0, merge_wgrads = 0;
  int tp = 2, micro_batch = 4, micro_batches = 1;
  int layer = -1, columns = 150;
  bool sequence_parallel = false, json = false, reference = false;
  double gbps = 1, latency_us = 0, gflops = 100, membw = 10;
  double contention = 0, link_contention = 0;
};

// Adds the flags to `app`; parsing fills `flags`, which must outlive it. Errors: CLI::ParseError,
// whose message says flag, found and expected.
void AddSimFlags(CLI::App& app, SimFlags& flags);

}  // namespace stretto

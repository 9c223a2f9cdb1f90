// SPDX-License-Identifier: Apache-2.0

// A table of words with the same meaning is asked first, because a spelling can be near and mean
// something else: "gpu" is nearer to "cpu" than to "cuda".

#include "proto/base/nearest_name.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/ascii.h"

namespace stretto {
namespace {

// Words from other systems that mean exactly one of ours. Where several of ours could be meant,
// there is no entry.
struct Synonym {
  const char* word;
  const char* meaning;
};
constexpr Synonym kSynonyms[] = {
    // devices, types, families
    {"gpu", "cuda"},
    {"nvidia", "cuda"},
    {"host", "cpu"},
    {"float32", "f32"},
    {"fp32", "f32"},
    {"float", "f32"},
    {"single", "f32"},
    {"bfloat16", "bf16"},
    {"gpt2", "gpt"},
    {"llama2", "llama"},
    {"llama3", "llama"},
    // recomputation, delays
    {"off", "none"},
    {"no", "none"},
    {"false", "none"},
    {"all", "full"},
    // causes
    {"oom", "out_of_memory"},
    {"node_failure", "node_loss"},
    {"preempted", "preemption"},
    // states
    {"queued", "pending"},
    {"waiting", "pending"},
    {"starting", "preparing"},
    {"training", "running"},
    {"done", "succeeded"},
    {"finished", "succeeded"},
    {"completed", "succeeded"},
    {"error", "failed"},
    {"crashed", "failed"},
    {"stopped", "cancelled"},
    {"aborted", "cancelled"},
    {"paused", "suspended"},
    // commands
    {"ls", "list"},
    {"ps", "list"},
    {"rm", "delete"},
    {"remove", "delete"},
    {"stop", "cancel"},
    {"kill", "cancel"},
    {"abort", "cancel"},
    {"pause", "suspend"},
    {"continue", "resume"},
    {"restart", "resume"},
    {"create", "submit"},
    {"apply", "submit"},
    {"run", "submit"},
    {"copy", "clone"},
    {"show", "get"},
    // fields
    {"lr", "learning_rate"},
    {"dtype", "precision"},
    {"num_steps", "steps"},
    {"max_steps", "steps"},
    {"iterations", "steps"},
    {"tensor_parallel_size", "tp_size"},
    {"pipeline_parallel_size", "pp_size"},
    {"data_parallel_size", "dp_size"},
    {"tp", "tp_size"},
    {"pp", "pp_size"},
    {"dp", "dp_size"},
    {"n_layers", "layers"},
    {"num_layers", "layers"},
    {"n_heads", "heads"},
    {"num_heads", "heads"},
    {"hidden_size", "hidden"},
    {"d_model", "hidden"},
    {"seq_len", "sequence_length"},
    {"seq_length", "sequence_length"},
    {"context_length", "sequence_length"},
    {"max_grad_norm", "clip_norm"},
    {"grad_clip", "clip_norm"},
};

// Levenshtein distance with adjacent transpositions counted once.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates) {
  const std::string lower = absl::AsciiStrToLower(word);
  for (const Synonym& synonym : kSynonyms) {
    const bool offered =
        std::find(candidates.begin(), candidates.end(), synonym.meaning) != candidates.end();
    if (lower == synonym.word && offered) return synonym.meaning;
  }
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(lower, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace stretto

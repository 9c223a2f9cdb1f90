// SPDX-License-Identifier: Apache-2.0

// Builds a program that repeats one case, each time on other buffers so that operands come from
// memory, fills the buffers with values that are valid for their role, and runs it on the backend.
// The time of a call is the span of the intervals divided by the number of copies. Results must be
// finite.

#include "worker/bench/kernels/measure.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "kernels/bf16.h"
#include "kernels/ops.h"
#include "proto/base/status_macros.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/memory/plan.h"

namespace stretto::bench {
namespace {

constexpr int64_t kMostCopies = 64;

int64_t BytesOf(const KernelCase& timed) {
  int64_t bytes = 0;
  for (const Buffer& buffer : timed.buffers) bytes += buffer.bytes();
  return bytes;
}

// The values that an operand may have, by its name in the table of operations. A maximum is well
// above all logits; otherwise their gradient, which is in place, would grow from run to run.
enum class Content : uint8_t { kAny, kPositive, kMaximum, kKeys, kWord };

Content ContentOf(absl::string_view operand) {
  if (operand == "keys") return Content::kKeys;
  if (operand == "max") return Content::kMaximum;
  if (operand == "tokens" || operand == "targets") return Content::kWord;
  for (absl::string_view positive :
       {"stats", "rstd", "lse", "sums", "sum_squares", "scalars", "state", "=v"}) {
    if (operand == positive) return Content::kPositive;
  }
  return Content::kAny;
}

// By buffer of the case. Words are in this rank's part of the vocabulary.
struct Filling {
  Content content = Content::kAny;
  int64_t first_word = 0, words = 1;
};

IdVector<BufferId, Filling> FillingsOf(const KernelCase& timed) {
  IdVector<BufferId, Filling> fillings(timed.buffers.size());
  for (const Op& op : timed.ops) {
    const OpInfo& info = InfoOf(op.kind);
    int64_t rows = 1;
    for (size_t i = 0; i < op.in.size(); ++i) {
      const std::string name = info.inputs[i];
      const std::vector<int64_t>& shape = timed.buffers[op.in[i]].shape;
      if (name == "table" || name == "=dtable") rows = shape[0];
      if (name == "logits" || name == "=logits") rows = shape.back();
    }
    for (size_t i = 0; i < op.in.size(); ++i) {
      Filling& filling = fillings[op.in[i]];
      filling.content = ContentOf(info.inputs[i]);
      if (filling.content != Content::kWord) continue;
      filling.first_word = op.attributes[0];  // start, size
      filling.words = std::max<int64_t>(1, std::min(rows, op.attributes[1] - op.attributes[0]));
    }
  }
  return fillings;
}

// Random numbers, repeated from a block whose length is a multiple of no shape.
class Source {
 public:
  Source() {
    uint32_t state = 1;
    for (size_t i = 0; i < kLength; ++i) {
      state = state * 1664525u + 1013904223u;
      const float unit = static_cast<float>(state >> 8) / 16777216.0f;
      words_[i] = state >> 8;
      any_[i] = 2 * unit - 1;
      positive_[i] = 0.5f + 0.4f * unit;
      maximum_[i] = 10 + unit;
      narrow_[i] = ToBF16(any_[i]);
    }
  }

  void Fill(const Filling& filling, TensorView view) const {
    if (view.dtype == DType::kI32) {
      const bool word = filling.content == Content::kWord;
      for (int64_t i = 0; i < view.count(); ++i) {
        view.as<int32_t>()[i] =
            word ? static_cast<int32_t>(filling.first_word + words_[i % kLength] % filling.words)
                 : 0;
      }
    } else if (view.dtype == DType::kBF16) {
      Tile(narrow_.data(), view);
    } else {
      Tile(FloatsOf(filling.content).data(), view);
    }
  }

 private:
  static constexpr size_t kLength = (1 << 20) - 3;
  const std::vector<float>& FloatsOf(Content content) const {
    if (content == Content::kMaximum) return maximum_;
    return content == Content::kPositive ? positive_ : any_;
  }
  static void Tile(const void* block, TensorView view) {
    const int64_t length = int64_t{kLength} * static_cast<int64_t>(SizeOf(view.dtype));
    for (int64_t done = 0; done < view.bytes(); done += length) {
      std::memcpy(static_cast<char*>(view.data) + done, block,
                  std::min(length, view.bytes() - done));
    }
  }

  std::vector<uint32_t> words_ = std::vector<uint32_t>(kLength);
  std::vector<float> any_ = std::vector<float>(kLength), positive_ = any_, maximum_ = any_;
  std::vector<BF16> narrow_ = std::vector<BF16>(kLength);
};

bool IsFinite(TensorView view) {
  if (view.dtype == DType::kI32) return true;
  for (int64_t i = 0; i < view.count(); ++i) {
    const float value =
        view.dtype == DType::kBF16 ? ToFloat(view.as<BF16>()[i]) : view.as<float>()[i];
    if (!std::isfinite(value)) return false;
  }
  return true;
}

absl::Status CheckFinite(const KernelCase& timed, Executor& executor) {
  for (const Op& op : timed.ops) {
    for (size_t i = 0; i < op.out.size(); ++i) {
      if (InfoOf(op.kind).outputs[i] == absl::string_view("scratch")) continue;
      ASSIGN_OR_RETURN(const TensorView view, executor.Read(op.out[i]));
      if (IsFinite(view)) continue;
      return absl::InternalError(absl::StrCat(timed.operation, ": found a non-finite value in ",
                                              InfoOf(op.kind).outputs[i],
                                              ", expected finite ones"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

CaseCopies CopiesOf(const KernelCase& timed, int calls, int sets) {
  CaseCopies result;
  StepProgram& step = result.step;
  step.lanes.push_back({"compute"});
  step.units.push_back({"calls", {}});
  step.instances.emplace_back();
  std::vector<IdVector<BufferId, BufferId>> at;  // in the step, by set
  for (int set = 0; set < sets; ++set) {
    at.push_back(set == 0 ? IdVector<BufferId, BufferId>(timed.buffers.size(), -1) : at.back());
    for (BufferId id : timed.buffers.ids()) {
      const bool shared = set % timed.uses != 0 && absl::c_linear_search(timed.weights, id);
      if (shared) continue;
      at[set][id] = step.buffers.next();
      Buffer buffer = timed.buffers[id];
      absl::StrAppend(&buffer.name, "#", set);
      step.buffers.push_back(std::move(buffer));
      result.of.push_back(id);
    }
  }
  for (int call = 0; call < calls; ++call) {
    const IdVector<BufferId, BufferId>& buffers = at[call % sets];
    for (Op op : timed.ops) {
      for (BufferId& id : op.in) id = buffers[id];
      for (BufferId& id : op.out) id = buffers[id];
      step.units[0].ops.push_back(std::move(op));
    }
  }
  return result;
}

int CountFor(const KernelCase& timed, int64_t working_set) {
  const auto copies =
      std::clamp<int64_t>(working_set / std::max<int64_t>(BytesOf(timed), 1) + 1, 2, kMostCopies);
  return std::max(static_cast<int>(copies), timed.uses);
}

absl::StatusOr<std::unique_ptr<Executor>> MakeFilled(const KernelCase& timed, CaseCopies copies,
                                                     GroupLinks links, Backend& backend) {
  static const Source* source = new Source();
  ExecutorRequest request;
  request.step = std::move(copies.step);
  request.program = Expand(request.step);
  request.links = std::move(links);
  ASSIGN_OR_RETURN(request.arenas, PlanMemory(&request.program));
  RETURN_IF_ERROR(Verify(request.program, &request.arenas));
  const size_t buffers = request.program.buffers.size();
  ASSIGN_OR_RETURN(auto executor, backend.MakeExecutor(std::move(request)));
  const IdVector<BufferId, Filling> fillings = FillingsOf(timed);
  for (BufferId id : IdRange<BufferId>(buffers)) {
    RETURN_IF_ERROR(executor->Write(id, [&](TensorView view) {
      if (copies.of.Has(id)) {
        source->Fill(fillings[copies.of[id]], view);
      } else {
        std::memset(view.data, 0, static_cast<size_t>(view.bytes()));
      }
      return absl::OkStatus();
    }));
  }
  return executor;
}

double SpanSeconds(absl::Span<const Interval> intervals) {
  Interval span = intervals[0];
  for (const Interval& interval : intervals) {
    span.begin = std::min(span.begin, interval.begin);
    span.end = std::max(span.end, interval.end);
  }
  return static_cast<double>(span.end - span.begin) * 1e-9;
}

absl::StatusOr<double> TimeOf(const KernelCase& timed, const KernelTiming& timing,
                              Backend& backend) {
  const int copies = CountFor(timed, timing.working_set);
  ASSIGN_OR_RETURN(const auto executor,
                   MakeFilled(timed, CopiesOf(timed, copies, copies), {}, backend));
  std::vector<double> seconds;
  for (int run = 0; run < timing.warm_up + timing.repeats; ++run) {
    RETURN_IF_ERROR(executor->Run());
    if (run >= timing.warm_up) seconds.push_back(SpanSeconds(executor->intervals()) / copies);
  }
  RETURN_IF_ERROR(CheckFinite(timed, *executor));
  return MedianOf(std::move(seconds));
}

}  // namespace stretto::bench

// SPDX-License-Identifier: Apache-2.0

// Leaves out, or adds, whole periods of the declared repeat. Instances behind it move: their
// micro-batches by the stride, and their waits by the period where they refer to the repeat. The
// declaration is checked first, because a wrong one would give a program of another step.

#include "worker/engine/program/shortened.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

// The number of micro-batches that shows every kind of neighbour: the first ones, which have too
// few before them, two with neighbours on both sides, and the last ones. `together` of them always
// have one of the same at their side.
int Enough(const StepProgram& step, int together, int slots) {
  for (const Buffer& buffer : step.buffers) slots = std::max(slots, buffer.slots);
  return std::max(3 * slots, 6 * together);
}

// Returns by how many micro-batches `later` follows `earlier`, or 0 if they are of different kinds.
int Stride(const Instance& earlier, const Instance& later) {
  if (earlier.unit != later.unit || earlier.micro_batches.empty()) return 0;
  const int stride = later.micro_batches.front() - earlier.micro_batches.front();
  const bool all = std::equal(earlier.micro_batches.begin(), earlier.micro_batches.end(),
                              later.micro_batches.begin(), later.micro_batches.end(),
                              [&](int a, int b) { return a + stride == b; });
  return all && stride > 0 ? stride : 0;
}

absl::Status CheckRepeat(const StepProgram& step) {
  const Repeat& repeat = step.repeat;
  const bool inside = repeat.begin >= 0 && repeat.begin <= repeat.end &&
                      repeat.end <= step.instances.next() && repeat.period > 0 &&
                      (repeat.end - repeat.begin) % repeat.period == 0;
  if (!inside) {
    return absl::InternalError(absl::StrCat(
        "repeat: found [", repeat.begin.value(), ", ", repeat.end.value(), ") with period ",
        repeat.period, ", expected whole periods of ", step.instances.size(), " instances"));
  }
  for (InstanceId i = repeat.begin + repeat.period; i < repeat.end; ++i) {
    if (Stride(step.instances[i - repeat.period], step.instances[i]) == repeat.stride) continue;
    return absl::InternalError(absl::StrCat(
        "instance ", i.value(), ": found another unit or stride", ", expected those of instance ",
        (i - repeat.period).value(), ", ", repeat.stride, " micro-batches later"));
  }
  return absl::OkStatus();
}

// Returns the instance `by` periods later; its waits for instances of the repeat move with it.
Instance Moved(Instance instance, int by, const Repeat& run) {
  for (int& micro_batch : instance.micro_batches) micro_batch += by * run.stride;
  for (CarriedWait& wait : instance.waits) {
    if (wait.instance >= run.begin) wait.instance = wait.instance + by * run.period;
  }
  return instance;
}

// Copies everything but the instances.
StepProgram WithMicroBatches(const StepProgram& step, int micro_batches) {
  StepProgram other = step;
  other.micro_batches = micro_batches;
  other.instances.clear();
  return other;
}

bool ReachesBefore(const Instance& instance, InstanceId first, const Repeat& run) {
  return std::any_of(instance.waits.begin(), instance.waits.end(), [&](const CarriedWait& wait) {
    return wait.instance >= run.begin && wait.instance < first;
  });
}

}  // namespace

absl::StatusOr<StepProgram> Shortened(const StepProgram& step, int together, int slots) {
  RETURN_IF_ERROR(CheckRepeat(step));
  const Repeat& run = step.repeat;
  const int enough = Enough(step, together, slots);
  int surplus =
      std::min(step.micro_batches - enough, run.count() * run.stride - (enough - 2 * run.stride));
  surplus -= surplus % std::lcm(together, run.stride);
  if (surplus <= 0) return step;
  const int periods = surplus / run.stride, removed = periods * run.period;
  StepProgram shorter = WithMicroBatches(step, step.micro_batches - surplus);
  shorter.repeat.end = run.end - removed;
  for (InstanceId i : step.instances.ids()) {
    if (i >= run.end - removed && i < run.end) continue;
    const bool moves = i >= run.end;
    // A wait for a removed instance cannot be distinguished from a wait for what comes before the
    // repeat, so such a step is not shortened.
    if (moves && ReachesBefore(step.instances[i], run.begin + removed, run)) return step;
    shorter.instances.push_back(moves ? Moved(step.instances[i], -periods, run)
                                      : step.instances[i]);
  }
  return shorter;
}

absl::StatusOr<StepProgram> Lengthened(const StepProgram& step, int micro_batches) {
  if (micro_batches == step.micro_batches) return step;
  RETURN_IF_ERROR(CheckRepeat(step));
  const Repeat& run = step.repeat;
  const int missing = (micro_batches - step.micro_batches) / run.stride;
  // One period shows how the first follows what comes before it, and the second how it follows
  // the first.
  if (missing <= 0 || run.count() < 2 ||
      step.micro_batches + missing * run.stride != micro_batches) {
    return absl::InternalError(
        absl::StrCat("a step of ", step.micro_batches, " micro-batches that repeats ", run.count(),
                     " times by ", run.stride, ": cannot be lengthened to ", micro_batches));
  }
  StepProgram longer = WithMicroBatches(step, micro_batches);
  longer.repeat.end = run.end + missing * run.period;
  longer.instances.assign(step.instances.begin(), step.instances.begin() + run.end.value());
  for (int repeat = 1; repeat <= missing; ++repeat) {
    for (InstanceId i = run.end - run.period; i < run.end; ++i)
      longer.instances.push_back(Moved(step.instances[i], repeat, run));
  }
  for (InstanceId i = run.end; i < step.instances.next(); ++i)
    longer.instances.push_back(Moved(step.instances[i], missing, run));
  return longer;
}

}  // namespace stretto

// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/shortened.h"

#include <algorithm>

#include "proto/base/check.h"

namespace stretto {
namespace {

// The number of micro-batches that shows every kind of neighbour: the first ones, which have too
// few before them, two with neighbours on both sides, and the last ones.
int Enough(const StepProgram& step) { return std::max(6, 3 * step.slots); }

// Instances [begin, end) repeat with a period of `period` instances; each period is for
// micro-batches that are `stride` later.
struct Run {
  InstanceId begin = 0, end = 0;
  int period = 1, stride = 1;
  int repeats() const { return (end - begin) / period; }
};

// Returns by how many micro-batches `later` follows `earlier`, or 0 if they are of different kinds.
int Stride(const Instance& earlier, const Instance& later) {
  if (earlier.unit != later.unit || earlier.micro_batches.empty()) return 0;
  const int stride = later.micro_batches.front() - earlier.micro_batches.front();
  const bool all = std::equal(earlier.micro_batches.begin(), earlier.micro_batches.end(),
                              later.micro_batches.begin(), later.micro_batches.end(),
                              [&](int a, int b) { return a + stride == b; });
  return all && stride > 0 ? stride : 0;
}

// Returns the longest run.
Run RunOf(const IdVector<InstanceId, Instance>& instances) {
  constexpr int kLongestPeriod = 8;
  Run best;
  for (int period = 1; period <= kLongestPeriod; ++period) {
    for (InstanceId begin = 0; begin + period < instances.next(); ++begin) {
      InstanceId i = begin;
      const int stride = Stride(instances[i], instances[i + period]);
      while (stride > 0 && i + period < instances.next() &&
             Stride(instances[i], instances[i + period]) == stride)
        ++i;
      const Run run{begin, begin + ((i - begin) / period + 1) * period, period, stride};
      if (run.repeats() >= 2 && run.end - run.begin > best.end - best.begin) best = run;
      begin = i;
    }
  }
  return best;
}

// Returns the instance `by` periods later; its waits for instances of the run move with it.
Instance Moved(Instance instance, int by, const Run& run) {
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

bool ReachesBefore(const Instance& instance, InstanceId first, const Run& run) {
  return std::any_of(instance.waits.begin(), instance.waits.end(), [&](const CarriedWait& wait) {
    return wait.instance >= run.begin && wait.instance < first;
  });
}

}  // namespace

StepProgram Shortened(const StepProgram& step, int together) {
  const Run run = RunOf(step.instances);
  const int enough = Enough(step) * together;
  int surplus = std::min(step.micro_batches - enough, run.repeats() - (enough - 2));
  surplus -= surplus % together;
  if (surplus <= 0 || run.stride != 1) return step;
  const int removed = surplus * run.period;
  StepProgram shorter = WithMicroBatches(step, step.micro_batches - surplus);
  for (InstanceId i : step.instances.ids()) {
    if (i >= run.end - removed && i < run.end) continue;
    const bool moves = i >= run.end;
    // A wait for a removed instance cannot be distinguished from a wait for what comes before the
    // run, so such a step is not shortened.
    if (moves && ReachesBefore(step.instances[i], run.begin + removed, run)) return step;
    shorter.instances.push_back(moves ? Moved(step.instances[i], -surplus, run)
                                      : step.instances[i]);
  }
  return shorter;
}

StepProgram Lengthened(const StepProgram& step, int micro_batches) {
  if (micro_batches == step.micro_batches) return step;
  const Run run = RunOf(step.instances);
  const int missing = (micro_batches - step.micro_batches) / run.stride;
  STRETTO_CHECK(missing > 0 && run.repeats() >= 2 &&
                step.micro_batches + missing * run.stride == micro_batches);
  StepProgram longer = WithMicroBatches(step, micro_batches);
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

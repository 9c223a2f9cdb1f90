#include "worker/engine/program/shortened.h"

#include <algorithm>

#include "proto/base/check.h"

namespace stretto {
namespace {

// Enough for the first ones, which lack some before them, two that have neighbours on both sides,
// and the last ones.
int Enough(const StepProgram& step) { return std::max(6, 3 * step.slots); }

// Instances [begin, end) are repeats of `period` instances, each for micro-batches one further on.
struct Run {
  size_t begin = 0, end = 0, period = 1;
  int repeats() const { return static_cast<int>((end - begin) / period); }
};

bool Follows(const Instance& earlier, const Instance& later) {
  return earlier.unit == later.unit && !earlier.micro_batches.empty() &&
         std::equal(earlier.micro_batches.begin(), earlier.micro_batches.end(),
                    later.micro_batches.begin(), later.micro_batches.end(),
                    [](int a, int b) { return a + 1 == b; });
}

// The longest.
Run RunOf(const std::vector<Instance>& instances) {
  constexpr size_t kLongestPeriod = 8;
  Run best;
  for (size_t period = 1; period <= kLongestPeriod; ++period) {
    for (size_t begin = 0; begin + period < instances.size(); ++begin) {
      size_t i = begin;
      while (i + period < instances.size() && Follows(instances[i], instances[i + period])) ++i;
      const Run run{begin, begin + ((i - begin) / period + 1) * period, period};
      if (i > begin && run.end - run.begin > best.end - best.begin) best = run;
      begin = i;
    }
  }
  return best;
}

// `by` repeats later, with waits for instances of the run.
Instance Moved(Instance instance, int by, const Run& run) {
  for (int& micro_batch : instance.micro_batches) micro_batch += by;
  for (CarriedWait& wait : instance.waits) {
    if (wait.instance >= static_cast<int>(run.begin))
      wait.instance += by * static_cast<int>(run.period);
  }
  return instance;
}

// Everything but the instances.
StepProgram WithMicroBatches(const StepProgram& step, int micro_batches) {
  StepProgram other = step;
  other.micro_batches = micro_batches;
  other.instances.clear();
  return other;
}

bool ReachesBefore(const Instance& instance, int first, const Run& run) {
  return std::any_of(instance.waits.begin(), instance.waits.end(), [&](const CarriedWait& wait) {
    return wait.instance >= static_cast<int>(run.begin) && wait.instance < first;
  });
}

}  // namespace

StepProgram Shortened(const StepProgram& step) {
  const Run run = RunOf(step.instances);
  const int surplus =
      std::min(step.micro_batches - Enough(step), run.repeats() - (Enough(step) - 2));
  if (surplus <= 0) return step;
  const size_t removed = static_cast<size_t>(surplus) * run.period;
  StepProgram shorter = WithMicroBatches(step, step.micro_batches - surplus);
  for (size_t i = 0; i < step.instances.size(); ++i) {
    if (i >= run.end - removed && i < run.end) continue;
    const bool moves = i >= run.end;
    // A wait that would leave the run cannot be told from one for what comes before it.
    if (moves && ReachesBefore(step.instances[i], static_cast<int>(run.begin + removed), run))
      return step;
    shorter.instances.push_back(moves ? Moved(step.instances[i], -surplus, run)
                                      : step.instances[i]);
  }
  return shorter;
}

StepProgram Lengthened(const StepProgram& step, int micro_batches) {
  const int missing = micro_batches - step.micro_batches;
  if (missing == 0) return step;
  const Run run = RunOf(step.instances);
  STRETTO_CHECK(missing > 0 && run.repeats() >= 2);
  StepProgram longer = WithMicroBatches(step, micro_batches);
  const auto at = [&](size_t i) { return step.instances.begin() + static_cast<std::ptrdiff_t>(i); };
  longer.instances.assign(at(0), at(run.end));
  for (int repeat = 1; repeat <= missing; ++repeat) {
    for (size_t i = run.end - run.period; i < run.end; ++i)
      longer.instances.push_back(Moved(step.instances[i], repeat, run));
  }
  for (size_t i = run.end; i < step.instances.size(); ++i)
    longer.instances.push_back(Moved(step.instances[i], missing, run));
  return longer;
}

}  // namespace stretto

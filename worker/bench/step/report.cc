// SPDX-License-Identifier: Apache-2.0

// Derives tokens per second and utilisation from the measurement, and prints them with the
// breakdown of the step as text or JSON.

#include "worker/bench/step/report.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/units.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/engine/cost/median.h"
#include "worker/engine/cost/mfu.h"
#include "worker/engine/exec/backend_sim/grid.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Utilisation {
  std::optional<double> peak, mfu;
};

Utilisation UtilisationOf(const StepOptions& options, const StepMeasurement& measured,
                          const Machine& machine) {
  Utilisation result;
  result.peak = options.peak_flops ? options.peak_flops : PeakFlops(machine.name);
  if (!result.peak) return result;
  result.mfu = Mfu(measured.tokens_per_second(options), FlopsPerToken(options.spec.model),
                   options.spec.tp_size, *result.peak);
  return result;
}

Json LinkOf(const StepOptions& options) {
  if (options.spec.tp_size == 1) return nullptr;
  return {{"kind", "emulated link"},
          {"latency_seconds", absl::ToDoubleSeconds(options.link.latency)},
          {"bytes_per_second", options.link.bytes_per_second},
          {"blocks", options.link.blocks}};
}

Json BreakdownOf(const StepLedger& ledger) {
  Json rows = Json::array();
  for (const LedgerEntry& entry : ledger.entries) {
    rows.push_back({{"part", NameOf(entry.part)},
                    {"group", entry.group},
                    {"phase", entry.phase},
                    {"seconds", entry.seconds},
                    {"share", entry.seconds / ledger.seconds}});
  }
  return rows;
}

}  // namespace

std::string StepText(const StepMeasurement& measured) {
  const bool counts = !measured.step_seconds.empty();
  return absl::StrFormat("%s %d: %.4f s, loss %.4f\n", counts ? "step" : "warm-up step",
                         counts ? std::ssize(measured.step_seconds) : measured.warm_up_steps,
                         measured.last_seconds, measured.loss_last);
}

std::string ToText(const StepOptions& options, const StepMeasurement& measured,
                   const Machine& machine) {
  const EngineSpec& spec = options.spec;
  const Utilisation utilisation = UtilisationOf(options, measured, machine);
  std::string text = absl::StrFormat(
      "%s (%s)\n%s, %s, %d x %d sequences of %d: %d tokens a step; %s, recompute %s, %s of "
      "memory\n",
      machine.name, machine.backend->Describe(), options.model, NameOf(spec.dtype),
      spec.micro_batches, spec.micro_batch_size, spec.model.sequence_length,
      options.tokens_per_step(), spec.schedule.name, NameOf(spec.schedule.recompute),
      FormatBytes(measured.memory_bytes));
  if (spec.tp_size > 1) {
    absl::StrAppendFormat(&text, "rank %d of %d, emulated link: %s, %.1f GB/s, %d blocks\n",
                          options.rank, spec.tp_size, absl::FormatDuration(options.link.latency),
                          options.link.bytes_per_second * 1e-9, options.link.blocks);
  }
  absl::StrAppendFormat(&text,
                        "%d steps in %.1f s after %d of warm-up: %.4f s a step, %.0f tokens/s",
                        measured.step_seconds.size(), measured.seconds, measured.warm_up_steps,
                        MedianOf(measured.step_seconds), measured.tokens_per_second(options));
  absl::StrAppend(&text, utilisation.mfu
                             ? absl::StrFormat(", MFU %.1f %% of %.1f TFLOP/s\n",
                                               100 * *utilisation.mfu, *utilisation.peak * 1e-12)
                             : ", MFU unknown: --peak-tflops says what the device could do\n");
  absl::StrAppendFormat(&text, "loss %.4f at first, %.4f at last\n\n%s", measured.loss_first,
                        measured.loss_last, PrintLedger(measured.ledger));
  return text;
}

std::string ToJson(const StepOptions& options, const StepMeasurement& measured,
                   const Machine& machine) {
  const EngineSpec& spec = options.spec;
  const Utilisation utilisation = UtilisationOf(options, measured, machine);
  Json json = {{"machine", ToJson(machine)},
               {"model", options.model},
               {"dtype", NameOf(spec.dtype)},
               {"tp_size", spec.tp_size},
               {"rank", options.rank},
               {"link", LinkOf(options)},
               {"schedule", spec.schedule.name},
               {"slices", spec.schedule.slices.size()},
               {"recompute", NameOf(spec.schedule.recompute)},
               {"merge_wgrads", spec.schedule.merge_wgrads},
               {"work", WorkOf(spec)},
               {"tokens_per_step", options.tokens_per_step()},
               {"memory_bytes", measured.memory_bytes},
               {"warm_up_steps", measured.warm_up_steps},
               {"steps", measured.step_seconds.size()},
               {"seconds", measured.seconds},
               {"step_seconds_p50", MedianOf(measured.step_seconds)},
               {"tokens_per_second", measured.tokens_per_second(options)},
               {"flops_per_token", FlopsPerToken(spec.model)},
               {"peak_flops", nullptr},
               {"mfu", nullptr},
               {"overlap_ratio", measured.ledger.overlap_ratio()},
               {"loss_first", measured.loss_first},
               {"loss_last", measured.loss_last},
               {"breakdown", BreakdownOf(measured.ledger)},
               {"samples", measured.step_seconds}};
  if (utilisation.peak) json["peak_flops"] = *utilisation.peak;
  if (utilisation.mfu) json["mfu"] = *utilisation.mfu;
  return json.dump(2);
}

}  // namespace stretto::bench

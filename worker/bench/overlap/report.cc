// SPDX-License-Identifier: Apache-2.0

// Writes the comparison as JSON. It only names figures; shares and bounds are computed in
// figures.cc and compare.cc.

#include "worker/bench/overlap/report.h"

#include <nlohmann/json.hpp>

#include "worker/bench/common/disturbance.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::ordered_json;

double TokensPerSecond(const OverlapOptions& options, double seconds) {
  return static_cast<double>(options.micro_batches) * options.batch *
         options.model.sequence_length / seconds;
}

Json WorkOf(const OverlapOptions& options) {
  const ModelSpec& model = options.model;
  return {{"model", options.preset},
          {"family", model.architecture.name},
          {"rank", options.rank},
          {"layers", model.layers},
          {"hidden", model.hidden},
          {"ffn", model.ffn_hidden},
          {"heads", model.heads},
          {"kv_heads", model.key_heads()},
          {"sequence", model.sequence_length},
          {"batch", options.batch},
          {"micro_batches", options.micro_batches},
          {"vocab", model.vocab_size}};
}

Json ChoiceOf(const Choice& choice) {
  const EngineSpec& spec = choice.spec;
  Json json = {{"schedule", spec.schedule.name},
               {"micro_batches", spec.micro_batches},
               {"batch", spec.micro_batch_size},
               {"slices", spec.schedule.slices.size()},
               {"splits", spec.schedule.splits},
               {"sequence_parallel", spec.schedule.sequence_parallel},
               {"defer_wgrads", spec.schedule.defer_wgrads},
               {"plan", nullptr},
               {"plan_over_bound", nullptr}};
  if (!choice.plan.empty()) json["plan"] = choice.plan;
  if (choice.plan_over_bound > 0) json["plan_over_bound"] = choice.plan_over_bound;
  return json;
}

using Disturbances = absl::Span<const Disturbance>;

Json PhaseOf(const PhaseMedians& phase, Disturbances disturbed) {
  return {{"t_comp", phase.t_comp},
          {"t_comm", phase.t_comm},
          {"comm_cpu_seconds", phase.comm_cpu},
          {"t_serial", phase.t_serial},
          {"t_serial_sliced", phase.t_serial_sliced},
          {"t_overlap", phase.t_overlap},
          {"t_comp_sliced", phase.t_comp_sliced},
          {"t_ideal", phase.ideal()},
          {"hidden_interval", RatioJson(phase.hidden_interval, disturbed)},
          {"hidden_saved", RatioJson(phase.hidden_saved(), disturbed)}};
}

Json ScheduleOf(const OverlapOptions& options, const ScheduleResult& result,
                Disturbances disturbed) {
  const Figures& f = result.figures;
  const auto ratio = [&](double value) { return RatioJson(value, disturbed); };
  // The synchronous step is divided as --micro-batches says, and only then has the same passes.
  const bool paired = f.micro_batches > 1 && f.micro_batches == options.micro_batches;
  Json json = ChoiceOf(result.candidate.choice);
  json.update({{"gbps", options.gbps},
               {"dtype", options.dtype},
               {"wire", options.wire},
               {"parity", result.candidate.parity.message},
               {"loss_first", result.candidate.parity.loss},
               {"t_comp", f.step.t_comp},
               {"t_comm", f.step.t_comm},
               {"t_serial", f.step.t_serial},
               {"t_serial_sliced", f.step.t_serial_sliced},
               {"t_overlap", f.step.t_overlap},
               {"t_comp_sliced", f.step.t_comp_sliced},
               {"t_optimizer", result.t_optimizer},
               {"t_ideal_step", f.ideal_step()},
               {"t_ideal_phase", f.ideal_phase()},
               {"t_ideal_pairs", f.ideal_pairs()},
               {"t_ideal", f.ideal()},
               {"t_simulated", nullptr},
               {"t_comp_simulated", nullptr},
               {"t_simulated_interleaved", nullptr},
               {"t_comp_simulated_interleaved", nullptr},
               {"t_occupy", nullptr}});
  if (result.predicted) {
    json["t_simulated"] = result.predicted->t_overlap;
    json["t_comp_simulated"] = result.predicted->t_comp_sliced;
  }
  if (result.predicted_interleaved) {
    json["t_simulated_interleaved"] = result.predicted_interleaved->t_overlap;
    json["t_comp_simulated_interleaved"] = result.predicted_interleaved->t_comp_sliced;
  }
  if (result.t_occupy) json["t_occupy"] = *result.t_occupy;
  json.update({{"hidden", ratio(f.step.hidden())},
               {"hidden_forward", ratio(f.forward.hidden())},
               {"hidden_backward", ratio(f.backward.hidden())},
               {"hidden_ceiling_forward", result.ceiling.forward.hidden()},
               {"hidden_ceiling_backward", result.ceiling.backward.hidden()},
               {"hidden_paired", paired ? ratio(f.paired.hidden()) : Json()},
               {"hidden_ceiling_paired", paired ? Json(result.ceiling.paired.hidden()) : Json()},
               {"activations", result.activations},
               {"activations_serial", result.serial_activations},
               {"mixes_phases", f.mixes_phases},
               {"comm_cpu_seconds", f.step.comm_cpu},
               {"slowdown", ratio(result.slowdown.compute)},
               {"slowdown_communication", ratio(result.slowdown.communication)},
               {"tokens_per_second", TokensPerSecond(options, f.step.t_overlap)},
               {"forward", PhaseOf(f.forward, disturbed)},
               {"backward", PhaseOf(f.backward, disturbed)},
               {"samples", result.samples},
               {"peer", nullptr}});
  return json;
}

}  // namespace

std::string ToJson(const OverlapOptions& options, const Comparison& comparison) {
  Json json = {{"finished", comparison.finished},
               {"ranks", options.ranks},
               {"gbps", options.gbps},
               {"dtype", options.dtype},
               {"wire", options.wire},
               {"work", WorkOf(options)},
               {"repeats", options.repeats},
               {"link",
                {{"latency_seconds", comparison.link.latency_seconds},
                 {"bytes_per_second", comparison.link.bytes_per_second}}},
               {"wire_bytes", comparison.wire_bytes},
               {"least_collective_bytes", comparison.least_collective_bytes},
               {"wire_seconds", nullptr},
               {"schedules", Json::array()},
               {"searched", Json::array()},
               {"refused", comparison.refused},
               {"errors", comparison.errors}};
  AddTo(&json, comparison.rounds);
  if (comparison.wire_seconds) json["wire_seconds"] = *comparison.wire_seconds;
  for (const ScheduleResult& result : comparison.schedules) {
    json["schedules"].push_back(ScheduleOf(options, result, comparison.rounds.disturbed));
  }
  for (const Candidate& candidate : comparison.candidates) {
    Json searched = ChoiceOf(candidate.choice);
    searched["parity"] = candidate.parity.passed;
    searched["seconds"] = candidate.parity.seconds;
    json["searched"].push_back(std::move(searched));
  }
  return json.dump(2);
}

std::string ToJson(const OverlapOptions& options, const SingleRank& single) {
  const Json json = {{"ranks", 1},
                     {"dtype", options.dtype},
                     {"work", WorkOf(options)},
                     {"repeats", options.repeats},
                     {"t_forward", single.t_forward},
                     {"t_backward", single.t_backward},
                     {"t_step", single.t_step},
                     {"t_optimizer", single.t_optimizer},
                     {"t_gemm", single.t_gemm},
                     {"gemm_share", single.t_gemm / single.t_step},
                     {"tokens_per_second", TokensPerSecond(options, single.t_step)},
                     {"loss_first", single.loss},
                     {"samples", single.samples}};
  return json.dump(2);
}

}  // namespace stretto::bench

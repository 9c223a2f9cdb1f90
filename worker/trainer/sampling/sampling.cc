// SPDX-License-Identifier: Apache-2.0

// A thread takes the checkpoint that is due, has stretto-model continue one prompt after the other,
// reports the texts and appends them to the record.

#include "worker/trainer/sampling/sampling.h"

#include <fcntl.h>
#include <google/protobuf/util/time_util.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/sampling/run_program.h"

namespace stretto::trainer {
namespace {

using google::protobuf::util::TimeUtil;
using nlohmann::json;

// A text is cut there; what workers send is bounded.
constexpr size_t kMostText = size_t{4} << 10;
constexpr size_t kMostError = size_t{1} << 10;

std::string ProgramOf(const SamplingConfig& config) {
  if (!config.program.empty()) return config.program;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path() / "stretto-model";
}

// Has the program continue the prompt.
absl::StatusOr<v1alpha1::Sample> Continue(const SamplingConfig& config, const std::string& program,
                                          const std::string& folder, const std::string& prompt,
                                          const std::atomic<bool>& given_up) {
  std::vector<std::string> command = {program,         "sample",
                                      folder,          absl::StrCat("--prompt=", prompt),
                                      "--root",        config.root,
                                      "--tokens",      absl::StrCat(config.spec.tokens()),
                                      "--temperature", absl::StrCat(config.spec.temperature()),
                                      "--seed",        absl::StrCat(config.seed),
                                      "--format",      "json"};
  if (config.threads > 0)
    command.insert(command.end(), {"--threads", absl::StrCat(config.threads)});
  ASSIGN_OR_RETURN(const std::string output, RunProgram(command, given_up));
  const json answer = json::parse(output, nullptr, /*allow_exceptions=*/false);
  for (const char* field : {"text", "ending"}) {
    if (answer.is_object() && answer.contains(field) && answer[field].is_string()) continue;
    return absl::InternalError(absl::StrCat(program, ": found ", Prefix(output, 80),
                                            ", expected JSON with \"", field, "\""));
  }
  v1alpha1::Sample sample;
  sample.set_prompt(prompt);
  sample.set_text(std::string(Prefix(answer["text"].get_ref<const std::string&>(), kMostText)));
  sample.set_ending(answer["ending"].get<std::string>());
  return sample;
}

}  // namespace

SamplingConfig SamplingOf(const v1alpha1::JobSpec& spec, Rank rank,
                          const std::string& checkpoint_root,
                          const std::string& checkpoint_folder) {
  if (rank != 0) return {};
  return {.spec = spec.sample(),
          .steps = spec.steps(),
          .seed = spec.seed(),
          // A rank on a CPU has one core, which the program shares with it.
          .threads = spec.device() == v1alpha1::DEVICE_CUDA ? 0 : 1,
          .root = checkpoint_root,
          .record = absl::StrCat(checkpoint_folder, "/samples.jsonl"),
          .program = ""};
}

Sampling::Sampling(SamplingConfig config, Report report, Complete complete)
    : config_(std::move(config)),
      report_(std::move(report)),
      complete_(complete ? std::move(complete)
                         : [this, program = ProgramOf(config_)](const std::string& folder,
                                                                const std::string& prompt,
                                                                const std::atomic<bool>& given_up) {
                             return Continue(config_, program, folder, prompt, given_up);
                           }) {
  if (config_.spec.interval_steps() > 0) thread_ = std::thread([this] { Run(); });
}

Sampling::~Sampling() {
  given_up_.store(true);
  {
    const MutexLock lock(mu_);
    ending_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Sampling::OnCheckpoint(int64_t step, const std::string& folder) {
  const int64_t interval = config_.spec.interval_steps();
  if (interval <= 0 || (step % interval != 0 && step != config_.steps)) return;
  {
    const MutexLock lock(mu_);
    if (due_.has_value()) {
      spdlog::warn("step {} is not sampled: older texts are still being written", due_->first);
    }
    due_ = {step, folder};
  }
  changed_.NotifyAll();
}

void Sampling::Finish(absl::Duration at_most, const std::function<bool()>& stop) {
  constexpr std::chrono::milliseconds kLook(200);
  const absl::Duration end = Clock::Real().Monotonic() + at_most;
  const MutexLock lock(mu_);
  while (!changed_.WaitFor(mu_, kLook,
                           [this]() REQUIRES(mu_) { return !busy_ && !due_.has_value(); })) {
    if (stop() || Clock::Real().Monotonic() >= end) return;
  }
}

void Sampling::Run() {
  while (true) {
    std::pair<int64_t, std::string> next;
    {
      const MutexLock lock(mu_);
      busy_ = false;
      changed_.NotifyAll();
      changed_.Wait(mu_, [this]() REQUIRES(mu_) { return ending_ || due_.has_value(); });
      if (ending_) return;
      next = *std::exchange(due_, std::nullopt);
      busy_ = true;
    }
    const v1alpha1::Samples samples = Sample(next.first, next.second);
    if (given_up_.load()) return;
    Record(samples);
    report_(samples);
  }
}

v1alpha1::Samples Sampling::Sample(int64_t step, const std::string& folder) {
  v1alpha1::Samples samples;
  samples.set_step(step);
  for (const std::string& prompt : config_.spec.prompts()) {
    absl::StatusOr<v1alpha1::Sample> sample = complete_(folder, prompt, given_up_);
    if (!sample.ok()) {
      samples.clear_samples();
      samples.set_error(std::string(Prefix(sample.status().message(), kMostError)));
      if (!given_up_.load()) spdlog::warn("step {} is not sampled: {}", step, samples.error());
      break;
    }
    *samples.add_samples() = *std::move(sample);
  }
  *samples.mutable_time() =
      TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(Clock::Real().Now()));
  return samples;
}

void Sampling::Record(const v1alpha1::Samples& samples) const {
  json line = {{"step", samples.step()}, {"samples", json::array()}};
  line["time"] = TimeUtil::ToString(samples.time());
  if (!samples.error().empty()) line["error"] = samples.error();
  for (const v1alpha1::Sample& sample : samples.samples()) {
    line["samples"].push_back(
        {{"prompt", sample.prompt()}, {"text", sample.text()}, {"ending", sample.ending()}});
  }
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  const absl::StatusOr<FileDescriptor> file =
      OpenFile(config_.record, O_WRONLY | O_CREAT | O_APPEND, 0644);
  const absl::Status status =
      file.ok() ? WriteAll(file->get(), text, config_.record) : file.status();
  if (!status.ok()) spdlog::warn("samples are not recorded: {}", std::string(status.message()));
}

}  // namespace stretto::trainer

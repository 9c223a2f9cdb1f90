// SPDX-License-Identifier: Apache-2.0
#include "worker/tool/sample_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "proto/base/files.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "proto/commands/choice.h"
#include "proto/commands/ranges.h"
#include "worker/tool/interrupt.h"
#include "worker/tool/sample.h"

namespace stretto {
namespace {

absl::Status ReadPromptAndSample(SampleOptions options, const std::string& prompt_file) {
  if (!prompt_file.empty()) {
    ASSIGN_OR_RETURN(options.prompt, ReadFile(prompt_file == "-" ? "/dev/stdin" : prompt_file));
  }
  const InterruptFlag interrupt;
  const absl::Status status = Sample(options, InterruptFlag::raised);
  if (absl::IsCancelled(status)) InterruptFlag::Die();
  return status;
}

void Run(const SampleOptions& options, const std::string& prompt_file) {
  const absl::Status status = ReadPromptAndSample(options, prompt_file);
  if (status.ok()) return;
  absl::FPrintF(stderr, "error: %s\n", Printable(status.message()));
  throw CLI::RuntimeError(1);
}

void AddPrompt(CLI::App* command, SampleOptions* options, std::string* prompt_file) {
  CLI::Option* text = command->add_option("--prompt", options->prompt, "text to continue");
  CLI::Option* file = command
                          ->add_option("--prompt-file", *prompt_file,
                                       "file with the text to continue; - reads standard input")
                          ->type_name("FILE");
  CLI::Option* ids =
      command
          ->add_option(
              "--prompt-ids", options->prompt_ids,
              "IDs of the tokens to continue; without --tokenizer, the answer is token IDs too")
          ->delimiter(',')
          ->allow_extra_args(false);
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
}

}  // namespace

void AddSampleCommand(CLI::App& app) {
  const auto options = std::make_shared<SampleOptions>();
  const auto prompt_file = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("sample", "Generate text with a model on this machine's CPU");
  command->footer(
      "stretto sample checkpoints/gpt --prompt \"Once upon a time\"\n"
      "stretto sample hf:my-model --prompt-file - --temperature 0 < prompt.txt\n"
      "stretto sample llmc:model.bin --tokenizer hf:gpt2 --prompt Hello --top-p 0.9");
  command
      ->add_option("MODEL", options->model,
                   "folder of a checkpoint, or of a job (uses its newest checkpoint; JOB/best "
                   "its best); hf:FOLDER; or llmc:FILE")
      ->required();
  command->add_option("--root", options->root, "folder that symbolic links of MODEL may not leave")
      ->group("");  // for trainers, whose jobs have a say in where MODEL leads
  AddPrompt(command, options.get(), prompt_file.get());
  command
      ->add_option("--tokens", options->tokens,
                   "maximum number of tokens; the text ends earlier at the end of a document "
                   "and at the sequence length of the model")
      ->check(Integer(0, INT64_MAX))
      ->capture_default_str();
  command
      ->add_option("--temperature", options->choice.temperature,
                   "0 always chooses the likeliest token; above 1 flattens the distribution")
      ->capture_default_str();
  command
      ->add_option("--top-p", options->choice.top_p,
                   "choose among the likeliest tokens whose probabilities add up to this")
      ->capture_default_str();
  command
      ->add_option("--seed", options->choice.seed,
                   "seed of the random choices; the same seed generates the same text")
      ->capture_default_str();
  command
      ->add_option(
          "--tokenizer", options->tokenizer,
          "tokenizer: bytes, sentencepiece:MODEL_FILE or hf:FOLDER (default: the model's own)")
      ->type_name("TOKENIZER");
  command
      ->add_option("--end-of-document", options->end_of_document,
                   "token that ends the text (default: the one that hf:FOLDER names)")
      ->type_name("TOKEN");
  command->add_option("--threads", options->threads, "number of threads (default: one per core)")
      ->check(Integer(1, 1024));
  const auto format = std::make_shared<std::string>("table");
  AddFormat(command, format.get());
  command->add_flag("--stats", options->stats, "print tokens per second to standard error");
  command
      ->add_option("--logits", options->logits,
                   "write the logits of the prompt to this file, as float32 [tokens][vocabulary]")
      ->type_name("FILE");
  command->callback([options, prompt_file, format] {
    options->format = FormatOf(*format);
    Run(*options, *prompt_file);
  });
}

}  // namespace stretto

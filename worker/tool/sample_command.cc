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
  CLI::Option* text = command->add_option("--prompt", options->prompt, "text to go on from");
  CLI::Option* file = command->add_option("--prompt-file", *prompt_file,
                                          "file to go on from, - for standard input");
  CLI::Option* ids =
      command
          ->add_option("--prompt-ids", options->prompt_ids,
                       "tokens to go on from, as numbers; without --tokenizer tokens follow")
          ->delimiter(',')
          ->allow_extra_args(false);
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
}

}  // namespace

void AddSampleCommand(CLI::App& app) {
  const auto options = std::make_shared<SampleOptions>();
  const auto prompt_file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("sample", "Let a model write text, on this machine's CPU");
  command->footer(
      "MODEL is the folder of a checkpoint, that of a job (its newest), hf:FOLDER or llmc:FILE.\n"
      "The text ends after --tokens, at the end of a document, or where the model's sequence\n"
      "length does. The same seed gives the same text.\n"
      "Examples:\n"
      "  stretto sample checkpoints/gpt --prompt \"Once upon a time\"\n"
      "  stretto sample hf:my-model --prompt-file - --temperature 0 < prompt.txt\n"
      "  stretto sample llmc:gpt2_124M.bin --tokenizer hf:gpt2 --prompt Hello --top-p 0.9");
  command->add_option("MODEL", options->model, "that writes")->required();
  AddPrompt(command, options.get(), prompt_file.get());
  command->add_option("--tokens", options->tokens, "at most so many")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--temperature", options->choice.temperature,
                   "0: always the likeliest token; above 1: flatter than the model")
      ->capture_default_str();
  command
      ->add_option("--top-p", options->choice.top_p,
                   "choose among the likeliest tokens that have this probability together")
      ->capture_default_str();
  command->add_option("--seed", options->choice.seed, "of the choices")->capture_default_str();
  command->add_option("--tokenizer", options->tokenizer,
                      "instead of the model's own: bytes, sentencepiece:MODEL_FILE or hf:FOLDER");
  command->add_option("--end-of-document", options->end_of_document,
                      "token that ends a text; default what the files of hf:FOLDER say");
  command->add_option("--threads", options->threads, "default one per core")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--json", options->json, "one object at the end, for programs");
  command->add_flag("--stats", options->stats, "tokens per second, on standard error");
  command->add_option("--logits", options->logits,
                      "write those of the prompt to this file: float32 [tokens][vocabulary]");
  command->callback([options, prompt_file] { Run(*options, *prompt_file); });
}

}  // namespace stretto

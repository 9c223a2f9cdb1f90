// SPDX-License-Identifier: Apache-2.0

// From prompt to output: tokenize the prompt, check its length before the weights are loaded, load,
// write logits if requested, generate, and print text as soon as its characters are complete.
// Logits go to a file that appears only when it is complete. JSON and statistics are printed at the
// end, even after an interrupt.

#include "worker/tool/sample.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "kernels/cpu/cpu_ops.h"
#include "proto/base/beneath.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/sample/decoder.h"
#include "worker/sample/generate.h"
#include "worker/sample/text_stream.h"
#include "worker/tool/model_name.h"
#include "worker/tool/model_tokenizer.h"

namespace stretto {
namespace {

// The output for a prompt.
struct Sampled {
  std::vector<int32_t> prompt, tokens;
  std::string text;  // of `tokens`, if there is a tokenizer
  std::string ending;
  absl::Duration prompt_time, time;
};

absl::StatusOr<std::vector<int32_t>> PromptTokens(const SampleOptions& options,
                                                  const Tokenizer* tokenizer) {
  if (!options.prompt_ids.empty()) return options.prompt_ids;
  absl::StatusOr<std::vector<int32_t>> tokens = tokenizer->Encode(options.prompt);
  if (!tokens.ok()) {
    return absl::Status(tokens.status().code(),
                        absl::StrCat("prompt: ", tokens.status().message()));
  }
  // In training, documents follow an end of document.
  if (tokens->empty()) tokens->push_back(tokenizer->info().end_of_document);
  return tokens;
}

// Checked here and not only in Decoder, because loading takes long.
absl::Status CheckLength(absl::Span<const int32_t> prompt, const ModelSource& source) {
  const auto count = static_cast<int64_t>(prompt.size());
  const int64_t most = source.model().sequence_length;
  if (count <= most) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(source.name(), ": found ", count,
                                            " tokens, expected at most ", most,
                                            ", its sequence length"));
}

// Only a regular file may be replaced.
absl::Status CheckReplaceable(const std::string& path) {
  std::error_code none;
  const auto found = std::filesystem::status(path, none);
  if (!std::filesystem::exists(found) || std::filesystem::is_regular_file(found)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--logits: found ", path, ", which is no regular file, expected one or none"));
}

absl::Status WriteLogits(int fd, const std::string& path, absl::Span<const int32_t> prompt,
                         Decoder& decoder) {
  constexpr size_t kTokens = 32;
  std::vector<float> logits;
  for (; !prompt.empty(); prompt.remove_prefix(std::min(prompt.size(), kTokens))) {
    const auto some = prompt.subspan(0, kTokens);
    logits.resize(some.size() * decoder.model().vocab_size);
    RETURN_IF_ERROR(decoder.Append(some, absl::MakeSpan(logits)));
    const absl::string_view bytes(reinterpret_cast<const char*>(logits.data()),
                                  logits.size() * sizeof(float));
    RETURN_IF_ERROR(WriteAll(fd, bytes, path));
  }
  decoder.Clear();
  return absl::OkStatus();
}

// Writes the logits of every token of the prompt in pieces. `path` has all of them or its old
// content.
absl::Status WriteLogitsFile(const std::string& path, absl::Span<const int32_t> prompt,
                             Decoder& decoder) {
  const std::string part = absl::StrCat(path, ".part");
  const FileDescriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", part));
  absl::Status status = WriteLogits(file.get(), part, prompt, decoder);
  if (status.ok() && ::rename(part.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, absl::StrCat("rename ", part, " to ", path));
  }
  if (!status.ok()) ::unlink(part.c_str());
  return status;
}

// Standard output; on a terminal, control characters are replaced.
class Output {
 public:
  explicit Output(bool silent) : silent_(silent), terminal_(::isatty(STDOUT_FILENO) == 1) {}

  absl::Status Write(const std::string& text) {
    if (silent_ || text.empty()) return absl::OkStatus();
    line_open_ = text.back() != '\n';
    return WriteAll(STDOUT_FILENO, terminal_ ? Printable(text) : text, "standard output");
  }
  // Ends the line so that the shell's prompt begins a new one.
  absl::Status EndLine() { return terminal_ && line_open_ ? Write("\n") : absl::OkStatus(); }

 private:
  const bool silent_, terminal_;
  bool line_open_ = false;
};

// Generates, and prints text as it arrives. On an error *sampled has the results so far.
absl::Status WriteText(const SampleOptions& options, const Tokenizer* tokenizer, Decoder& decoder,
                       Sampled* sampled) {
  Output output(options.format != OutputFormat::kTable);
  std::optional<TextStream> stream;
  if (tokenizer != nullptr) stream.emplace(*tokenizer, sampled->prompt);
  const auto write = [&](const std::string& text) {
    sampled->text += text;
    return output.Write(text);
  };
  const absl::Duration start = Clock::Real().Monotonic();
  absl::Duration last = start;
  const auto next = [&](int32_t token) -> absl::Status {
    last = Clock::Real().Monotonic();
    if (sampled->tokens.empty()) sampled->prompt_time = last - start;
    sampled->tokens.push_back(token);
    if (!stream.has_value()) return output.Write(absl::StrCat(token, "\n"));
    ASSIGN_OR_RETURN(const std::string text, stream->Add(token));
    return write(text);
  };
  const int32_t vocab = decoder.model().vocab_size;
  const GenerateOptions generate{
      .tokens = options.tokens,
      .choice = options.choice,
      .choices = tokenizer == nullptr ? vocab : std::min(vocab, tokenizer->info().vocab_size),
      .end_token = tokenizer == nullptr ? -1 : tokenizer->info().end_of_document};
  const absl::StatusOr<Ending> ending = Generate(decoder, sampled->prompt, generate, next);
  sampled->time = last - start - sampled->prompt_time;
  sampled->ending = ending.ok() ? NameOf(*ending) : "interrupted";
  if (stream.has_value()) {
    ASSIGN_OR_RETURN(const std::string rest, stream->Finish());
    RETURN_IF_ERROR(write(rest));
  }
  RETURN_IF_ERROR(output.EndLine());
  return ending.status();
}

absl::Status WriteDocument(const SampleOptions& options, const Sampled& sampled, bool with_text) {
  Document answer = {{"model", options.model},
                     {"prompt_tokens", sampled.prompt},
                     {"tokens", sampled.tokens},
                     {"ending", sampled.ending},
                     {"temperature", options.choice.temperature},
                     {"top_p", options.choice.top_p},
                     {"seed", options.choice.seed},
                     {"prompt_seconds", absl::ToDoubleSeconds(sampled.prompt_time)},
                     {"seconds", absl::ToDoubleSeconds(sampled.time)}};
  if (with_text) answer["text"] = sampled.text;
  return WriteAll(STDOUT_FILENO, TextOf(answer, options.format), "standard output");
}

std::string Rate(size_t tokens, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return absl::StrFormat("%d tokens in %s (%.1f per second)", tokens, stretto::FormatDuration(time),
                         seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0);
}

void ShowStatistics(const Sampled& sampled, int threads) {
  if (sampled.tokens.empty()) return;
  // The first token comes from processing the prompt.
  absl::FPrintF(stderr, "prompt: %s; then %s on %d threads; ended by %s\n",
                Rate(sampled.prompt.size(), sampled.prompt_time),
                Rate(sampled.tokens.size() - 1, sampled.time), threads, sampled.ending);
}

}  // namespace

absl::Status Sample(const SampleOptions& options, const std::function<bool()>& interrupted) {
  RETURN_IF_ERROR(Validate(options.choice));
  RETURN_IF_ERROR(CheckReplaceable(options.logits));
  std::string why;
  if (!CpuSupported(&why)) return absl::FailedPreconditionError(why);
  Confine(options.root, Links::kBeneath);
  ASSIGN_OR_RETURN(const std::string name, ResolveModel(options.model));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSource> source, OpenModel(name));
  std::unique_ptr<Tokenizer> tokenizer;
  if (options.prompt_ids.empty() || !options.tokenizer.empty()) {
    ASSIGN_OR_RETURN(tokenizer, TokenizerOf(*source, options.tokenizer, options.end_of_document));
    RETURN_IF_ERROR(CheckTokenizerFits(*tokenizer, *source));
  } else if (!options.end_of_document.empty()) {
    return absl::InvalidArgumentError(
        "--end-of-document: found it with --prompt-ids and no --tokenizer, expected it with hf:... "
        "alone");
  }
  Sampled sampled;
  ASSIGN_OR_RETURN(sampled.prompt, PromptTokens(options, tokenizer.get()));
  RETURN_IF_ERROR(CheckLength(sampled.prompt, *source));
  ASSIGN_OR_RETURN(const std::unique_ptr<Decoder> decoder,
                   Decoder::Load(*source, {.threads = options.threads, .cancelled = interrupted}));
  if (!options.logits.empty()) {
    RETURN_IF_ERROR(WriteLogitsFile(options.logits, sampled.prompt, *decoder));
  }
  const absl::Status status = WriteText(options, tokenizer.get(), *decoder, &sampled);
  if (!status.ok() && !absl::IsCancelled(status)) return status;
  const bool document = options.format != OutputFormat::kTable;
  if (document) RETURN_IF_ERROR(WriteDocument(options, sampled, tokenizer != nullptr));
  if (options.stats || (!document && ::isatty(STDERR_FILENO) == 1)) {
    ShowStatistics(sampled, decoder->threads());
  }
  return status;
}

}  // namespace stretto

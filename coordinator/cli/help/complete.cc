// SPDX-License-Identifier: Apache-2.0

// Walk follows the complete words through the tree of commands: command, flags, values, arguments.
// The replies are the subcommands, flags or values that may come next. The scripts for the shells
// call `stretto` with the words and print its replies.

#include "coordinator/cli/help/complete.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/check.h"

namespace stretto::cli {
namespace {

// The position in the tree of commands after the words before the last one.
class Walk {
 public:
  explicit Walk(const CommandInfo& root) : root_(root), path_{&root} {}

  void Take(const std::string& word) {
    if (open_ != nullptr) {
      given_[open_->names.back()] = word;
      open_ = nullptr;
    } else if (!only_arguments_ && word == "--") {
      only_arguments_ = true;
    } else if (!only_arguments_ && word.size() > 1 && word[0] == '-') {
      TakeFlag(word);
    } else {
      TakeWord(word);
    }
  }

  const FlagInfo* Find(const std::string& name) const {
    for (auto command = path_.rbegin(); command != path_.rend(); ++command) {
      for (const FlagInfo& flag : (*command)->flags) {
        if (std::count(flag.names.begin(), flag.names.end(), name) > 0) return &flag;
      }
    }
    return nullptr;
  }

  bool lost() const { return lost_; }
  bool only_arguments() const { return only_arguments_; }
  const FlagInfo* open() const { return open_; }  // a flag that waits for its value
  const std::vector<const CommandInfo*>& path() const { return path_; }
  const GivenFlags& given() const { return given_; }

  // The argument that comes next, or null.
  const FlagInfo* Argument() const {
    const std::vector<FlagInfo>& arguments = path_.back()->arguments;
    if (arguments.empty()) return nullptr;
    if (taken_ < arguments.size()) return &arguments[taken_];
    return arguments.back().repeats ? &arguments.back() : nullptr;
  }

 private:
  void TakeFlag(const std::string& word) {
    const std::vector<std::string> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const FlagInfo* flag = Find(parts[0]);
    if (flag == nullptr) return;
    given_[flag->names.back()] = parts.size() > 1 ? parts[1] : "";
    if (!flag->value.empty() && parts.size() == 1) open_ = flag;
  }

  void TakeWord(const std::string& word) {
    const std::vector<CommandInfo>& commands = path_.back()->commands;
    const auto command = std::find_if(commands.begin(), commands.end(),
                                      [&](const auto& command) { return command.name == word; });
    if (command != commands.end()) {
      if (command->apart) path_.clear();
      path_.push_back(&*command);
      // `stretto help job submit` names commands from the root.
      if (command->name == "help") path_ = {&root_};
    } else if (!commands.empty()) {
      lost_ = true;
    } else {
      ++taken_;
    }
  }

  const CommandInfo& root_;
  std::vector<const CommandInfo*> path_;
  const FlagInfo* open_ = nullptr;
  GivenFlags given_;
  size_t taken_ = 0;  // arguments
  bool only_arguments_ = false, lost_ = false;
};

class Replies {
 public:
  Replies(const std::string& prefix, const NameSource& names) : prefix_(prefix), names_(names) {}

  void Add(const std::string& word, const std::string& help) {
    if (absl::StartsWith(word, prefix_)) completion_.replies.push_back({word, help});
  }

  // `before` is the prefix of each value: "--output=".
  void AddValues(const ValueKind& kind, const GivenFlags& given, const std::string& before = "") {
    constexpr const char* kFiles[] = {"FILE", "DIR", "PATH", "PREFIX", "FOLDER", "MODEL"};
    constexpr const char* kNames[] = {"JOB", "WORKER", "CONTEXT", "STATE", "FIELD"};
    if (std::count(std::begin(kFiles), std::end(kFiles), kind) > 0) {
      completion_.files = true;
    } else if (std::count(std::begin(kNames), std::end(kNames), kind) > 0) {
      for (const std::string& name : names_(kind, given)) Add(before + name, "");
    } else if (absl::StrContains(kind, '|')) {
      for (const std::string& word : std::vector<std::string>(absl::StrSplit(kind, '|'))) {
        Add(before + word, "");
      }
    }
  }

  void AddFlags(const Walk& walk) {
    for (const CommandInfo* command : walk.path()) {
      for (const FlagInfo& flag : command->flags) {
        if (walk.given().count(flag.names.back()) > 0 && !flag.repeats) continue;
        Add(flag.names.back(), flag.help);
      }
    }
    Add("--help", "print help");
  }

  Completion Take() { return std::move(completion_); }

 private:
  const std::string& prefix_;
  const NameSource& names_;
  Completion completion_;
};

// Restores the words that bash split at '=' and ':'. A flag and its value remain separate.
std::vector<std::string> Rejoin(const std::vector<std::string>& words) {
  std::vector<std::string> out;
  bool glue = false;
  for (const std::string& word : words) {
    const bool colon = word == ":" && !out.empty();
    if (colon || glue) {
      out.back() += word;
    } else if (word != "=") {
      out.push_back(word);
    }
    glue = colon;
  }
  if (out.empty() || words.back() == "=") out.emplace_back();
  return out;
}

constexpr char kBash[] = R"(# bash completion of stretto: source this file.
_stretto() {
  local word help current=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  while IFS=$'\t' read -r word help; do
    if [[ $word == :files ]]; then
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
    else
      COMPREPLY+=("$word")
    fi
  done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _stretto stretto
)";

constexpr char kZsh[] = R"(#compdef stretto
# zsh completion of stretto: a file _stretto in a folder of $fpath, or sourced.
_stretto() {
  local word help
  local -a replies
  while IFS=$'\t' read -r word help; do
    if [[ $word == :files ]]; then
      _files
      return
    fi
    replies+=("${word//:/\\:}${help:+:$help}")
  done < <("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  _describe stretto replies
}
if [[ $funcstack[1] == _stretto ]]; then
  _stretto "$@"
else
  compdef _stretto stretto
fi
)";

constexpr char kFish[] = R"(# fish completion of stretto: a file in ~/.config/fish/completions.
function __stretto_complete
    set -l words (commandline -opc) (commandline -ct)
    for reply in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if test "$reply" = :files
            __fish_complete_path $words[-1]
        else
            printf '%s\n' $reply
        end
    end
end
complete -c stretto -f -a '(__stretto_complete)'
)";

}  // namespace

Completion Complete(const CommandInfo& root, const std::vector<std::string>& words,
                    const NameSource& names) {
  const std::vector<std::string> line = Rejoin(words);
  Walk walk(root);
  for (size_t i = 0; i + 1 < line.size(); ++i) walk.Take(line[i]);
  const std::string& last = line.back();
  Replies replies(last, names);
  const size_t equals = last.find('=');
  if (walk.lost()) {
    // Nothing follows a command that does not exist.
  } else if (walk.open() != nullptr) {
    replies.AddValues(walk.open()->value, walk.given());
  } else if (!walk.only_arguments() && last[0] == '-' && equals != std::string::npos) {
    const FlagInfo* flag = walk.Find(last.substr(0, equals));
    if (flag != nullptr) {
      replies.AddValues(flag->value, walk.given(), last.substr(0, equals + 1));
    }
  } else if (!walk.only_arguments() && last[0] == '-') {
    replies.AddFlags(walk);
  } else if (const FlagInfo* argument = walk.Argument()) {
    replies.AddValues(argument->value, walk.given());
  } else {
    for (const CommandInfo& sub : walk.path().back()->commands) replies.Add(sub.name, sub.help);
  }
  return replies.Take();
}

std::string CompletionScript(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  STRETTO_CHECK(shell == "fish");
  return kFish;
}

}  // namespace stretto::cli

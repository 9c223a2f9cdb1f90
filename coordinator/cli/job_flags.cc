// SPDX-License-Identifier: Apache-2.0

// One function per command of the group. It declares the flags, binds each to a value that the
// command's callback keeps alive, and calls the command with them.

#include "coordinator/cli/job_flags.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "coordinator/cli/command_line.h"
#include "coordinator/cli/commands/compare.h"
#include "coordinator/cli/commands/event_commands.h"
#include "coordinator/cli/commands/job_commands.h"
#include "coordinator/cli/commands/list_command.h"
#include "coordinator/cli/commands/metrics_command.h"
#include "coordinator/cli/commands/metrics_export.h"
#include "coordinator/cli/commands/submit_command.h"
#include "coordinator/cli/commands/trace_commands.h"
#include "coordinator/cli/commands/watch_commands.h"
#include "coordinator/cli/text/job_text.h"
#include "coordinator/cli/text/times.h"
#include "proto/commands/choice.h"
#include "proto/commands/ranges.h"

namespace stretto::cli {
namespace {

void AddName(CLI::App* command, std::string* name) {
  command->add_option("JOB", *name, "job name")->required();
}

void AddRank(CLI::App* command, int* rank) {
  command->add_option("--rank", *rank, "show this rank only (default: all ranks)")
      ->check(Integer(0, INT32_MAX));
}

// Adds the flags with which a new job is made.
void AddSubmitFlags(CLI::App* command, SubmitOptions* options, const char* name_help) {
  command->add_option("--name", options->name, name_help)->type_name("NAME");
  command
      ->add_option(
          "--set", options->set,
          "set a field of the job: PATH=VALUE as in a job file; null removes the field; may "
          "be repeated")
      ->type_name("FIELD")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--request-id", options->request_id,
          "ID of the request: however often it is repeated with the same ID, one job is created")
      ->type_name("ID");
  command->add_flag("--no-look", options->no_look,
                    "create the job without looking whether its data, weights and checkpoint are "
                    "there and its memory suffices");
  CLI::Option* follow =
      command->add_flag("--follow", options->follow, "show progress until the job ends");
  CLI::Option* wait =
      command
          ->add_flag("--wait", options->wait, "wait until the job ends, without showing progress")
          ->excludes(follow);
  command
      ->add_flag("--dry-run", options->dry_run,
                 "validate the job and show its defaults, placement and memory without creating it")
      ->excludes(follow)
      ->excludes(wait);
}

void AddSubmit(CommandLine& line, CLI::App* job) {
  struct Flags {
    std::string file;
    SubmitOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  flags->options.planner = line.environment().binary_dir + "/stretto-planner";
  CLI::App* submit = line.AddCommand(
      job, "submit", "Submit a job",
      [flags](const Invocation& invocation) {
        return SubmitJob(invocation, flags->file, flags->options);
      },
      {"stretto job submit gpt.yaml --follow", "stretto job submit gpt.yaml --dry-run",
       "stretto job submit gpt.yaml --name gpt-tp4 --set parallelism.tp_size=4"});
  submit->add_option("FILE", flags->file, "job file in YAML or JSON; - reads standard input")
      ->required();
  AddSubmitFlags(submit, &flags->options, "job name (default: the name in the file)");
}

void AddClone(CommandLine& line, CLI::App* job) {
  struct Flags {
    std::string origin;
    SubmitOptions options;
  };
  const auto flags = std::make_shared<Flags>();
  flags->options.planner = line.environment().binary_dir + "/stretto-planner";
  CLI::App* clone = line.AddCommand(
      job, "clone", "Submit the spec of a job again, under another name",
      [flags](const Invocation& invocation) {
        return CloneJob(invocation, flags->origin, flags->options);
      },
      {"stretto job clone gpt --set optimizer.learning_rate=1e-4",
       "stretto job clone gpt --name gpt-wide --set model.preset=gpt-100m --dry-run"});
  AddName(clone, &flags->origin);
  AddSubmitFlags(clone, &flags->options,
                 "name of the new job (default: the next free one of JOB-2, JOB-3, ...)");
}

void AddList(CommandLine& line, CLI::App* job) {
  const auto flags = std::make_shared<ListOptions>();
  CLI::App* list = line.AddCommand(
      job, "list", "List jobs, newest first",
      [flags](const Invocation& invocation) { return ListJobs(invocation, *flags); },
      {"stretto job list", "stretto job list --state running,pending --watch",
       "stretto job list --label team=speech,sweep --limit 0 -o json"});
  list->add_option("--limit", flags->limit, "maximum number of jobs; 0 lists all")
      ->check(Integer(0, INT32_MAX))
      ->capture_default_str();
  list->add_option("--project", flags->project, "list the jobs of this project only")
      ->type_name("PROJECT");
  Choices(list->add_option("--state", flags->states,
                           "list the jobs in these states only, separated by commas"),
          "STATE", JobStates());
  list->add_option("--label", flags->labels,
                   "list the jobs that have all these labels only: KEY or KEY=VALUE, separated by "
                   "commas")
      ->type_name("LABELS")
      ->delimiter(',')
      ->allow_extra_args(false);
  list->add_flag("--retired", flags->retired,
                 "list the jobs instead that ended long ago, of which only a short summary is kept")
      ->excludes("--label");
  list->add_flag(
      "-w,--watch", flags->watch,
      "continue with each job whose state changes; on a terminal, show the list as it is");
}

// Adds the commands whose only argument is the job.
void AddSimple(CommandLine& line, CLI::App* job) {
  const auto name = std::make_shared<std::string>();
  AddName(
      line.AddCommand(job, "get", "Show a job",
                      [name](const Invocation& invocation) { return GetJob(invocation, *name); },
                      {"stretto job get gpt", "stretto job get gpt -o yaml"}),
      name.get());
  AddName(line.AddCommand(job, "describe", "Show the details of a job",
                          [name](const Invocation& invocation) {
                            return DescribeJobCommand(invocation, *name);
                          },
                          {"stretto job describe gpt", "stretto job describe gpt --context lab"}),
          name.get());
  AddName(line.AddCommand(
              job, "cancel", "Cancel a job",
              [name](const Invocation& invocation) { return CancelJob(invocation, *name); },
              {"stretto job cancel gpt", "stretto job cancel gpt && stretto job watch gpt"}),
          name.get());
  AddName(line.AddCommand(
              job, "suspend", "Save a checkpoint of a job and release its workers",
              [name](const Invocation& invocation) { return SuspendJob(invocation, *name); },
              {"stretto job suspend gpt", "stretto job suspend gpt && stretto job get gpt"}),
          name.get());
  AddName(line.AddCommand(
              job, "delete", "Delete a job that has ended; its checkpoints stay on disk",
              [name](const Invocation& invocation) { return DeleteJob(invocation, *name); },
              {"stretto job delete gpt", "stretto job delete gpt && stretto job submit gpt.yaml"}),
          name.get());
  AddName(line.AddCommand(job, "watch",
                          "Follow a job until it ends; on a terminal, in a full-screen view",
                          [name](const Invocation& invocation) {
                            return WatchJob(invocation, *name, FollowStyle::kScreen);
                          },
                          {"stretto job watch gpt", "stretto job watch gpt | tee gpt.log",
                           "stretto job watch gpt -o json | jq .step.loss"}),
          name.get());
}

void AddResume(CommandLine& line, CLI::App* job) {
  struct Flags {
    std::string name;
    int64_t steps = 0;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* resume = line.AddCommand(
      job, "resume", "Continue a suspended, failed or cancelled job from its newest checkpoint",
      [flags](const Invocation& invocation) {
        return ResumeJob(invocation, flags->name, flags->steps);
      },
      {"stretto job resume gpt", "stretto job resume gpt --steps 2000"});
  AddName(resume, &flags->name);
  resume
      ->add_option("--steps", flags->steps,
                   "steps after which the job ends, more than before; then also a job that has "
                   "succeeded continues")
      ->check(Integer(1, INT64_MAX));
}

void AddCheckpoint(CommandLine& line, CLI::App* job) {
  struct Flags {
    std::string name;
    bool wait = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* checkpoint =
      line.AddCommand(job, "checkpoint", "Save a checkpoint of a running job, which continues",
                      [flags](const Invocation& invocation) {
                        return CheckpointJob(invocation, flags->name, flags->wait);
                      },
                      {"stretto job checkpoint gpt", "stretto job checkpoint gpt --wait"});
  AddName(checkpoint, &flags->name);
  checkpoint->add_flag("--wait", flags->wait,
                       "wait until the checkpoint is written, and print its name");
}

void AddLogs(CommandLine& line, CLI::App* job) {
  const auto flags = std::make_shared<LogOptions>();
  CLI::App* logs =
      line.AddCommand(job, "logs", "Print the logs of a job",
                      [flags](const Invocation& invocation) { return JobLogs(invocation, *flags); },
                      {"stretto job logs gpt -f", "stretto job logs gpt --rank 1 --tail 100",
                       "stretto job logs gpt --since 10m --grep 'WARN|ERROR'"});
  AddName(logs, &flags->name);
  logs->add_flag("-f,--follow", flags->follow, "keep printing until the job ends");
  AddRank(logs, &flags->rank);
  logs->add_option("--tail", flags->tail, "print the newest lines of each rank only")
      ->check(Integer(0, INT32_MAX));
  logs->add_option("--since", flags->since,
                   "print lines written since then only: an age (90s, 1h30m, 2d) or a time "
                   "(2026-01-02T03:04:05Z)")
      ->type_name("TIME")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return std::string(ParsePast(text, absl::Now()).status().message());
          },
          ""));
  logs->add_option("--grep", flags->grep,
                   "print lines only that this regular expression (RE2) matches")
      ->type_name("REGEX");
}

void AddEvents(CommandLine& line, CLI::App* job) {
  struct Flags {
    std::string name;
    bool follow = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* events = line.AddCommand(job, "events", "Show what has happened to a job",
                                     [flags](const Invocation& invocation) {
                                       return JobEvents(invocation, flags->name, flags->follow);
                                     },
                                     {"stretto job events gpt", "stretto job events gpt -f",
                                      "stretto job events gpt -o json | jq '.events[].reason'"});
  AddName(events, &flags->name);
  events->add_flag("-f,--follow", flags->follow, "keep printing until the job ends");
}

void AddCurve(CommandLine& line, CLI::App* job) {
  struct Flags {
    std::string name;
    int height = 16;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* curve = line.AddCommand(job, "curve", "Draw the loss curve of a job",
                                    [flags](const Invocation& invocation) {
                                      return JobCurve(invocation, flags->name, flags->height);
                                    },
                                    {"stretto job curve gpt", "stretto job curve gpt --height 30"});
  AddName(curve, &flags->name);
  curve->add_option("--height", flags->height, "height of the plot in lines")
      ->check(Integer(3, 100))
      ->capture_default_str();
}

void AddMetrics(CommandLine& line, CLI::App* job) {
  struct Flags {
    MetricsOptions options;
    MetricsExport to;
  };
  const auto flags = std::make_shared<Flags>();
  // The export replaces this process, so it must have no thread that handles signals.
  const auto export_metrics = [flags, &line] {
    const std::vector<std::string> command =
        ExportCommand(flags->options.name, flags->to, line.ClusterWords());
    const std::string why_not = line.environment().replace_process(command);
    line.terminal().err << "error: cannot run " << command.front() << ": " << why_not << "\n";
    return kError;
  };
  CLI::App* metrics = line.AddLocal(
      job, "metrics", "Print the metrics of every step, as CSV or with -o as JSON or YAML",
      [flags, &line, export_metrics] {
        if (flags->to.wanted()) return export_metrics();
        return line.WithInvocation([flags](const Invocation& invocation) {
          return JobMetrics(invocation, flags->options);
        });
      },
      {"stretto job metrics gpt --steps 100:200 --output gpt.csv",
       "stretto job metrics gpt -o json | jq '.[-1].held_out_loss'",
       "stretto job metrics gpt --tensorboard runs"});
  AddName(metrics, &flags->options.name);
  CLI::Option* steps = metrics->add_option("--steps", flags->options.steps,
                                           "steps to print, as A:B, A:, :B or A (default: all)");
  steps->type_name("STEPS");
  AddOutput(metrics, &flags->options.file, "FILE",
            "file to write; - is standard output (default: -)");
  const auto add_export = [&](const char* flag, std::string* folder, const char* help) {
    return metrics->add_option(flag, *folder, help)
        ->type_name("FOLDER")
        ->excludes(steps)
        ->excludes(metrics->get_option("--output"));
  };
  CLI::Option* tensorboard =
      add_export("--tensorboard", &flags->to.tensorboard,
                 "write event files of TensorBoard into FOLDER/JOB, by the Python package stretto");
  add_export("--wandb", &flags->to.wandb,
             "write an offline run of Weights & Biases into FOLDER/wandb, by the Python package "
             "stretto")
      ->excludes(tensorboard);
}

void AddCompare(CommandLine& line, CLI::App* job) {
  const auto names = std::make_shared<std::vector<std::string>>();
  line.AddCommand(job, "compare", "Compare jobs side by side",
                  [names](const Invocation& invocation) { return CompareJobs(invocation, *names); },
                  {"stretto job compare sync domino", "stretto job compare sync domino -o json"})
      ->add_option("JOB", *names, "names of the jobs to compare")
      ->required();
}

void AddTrace(CommandLine& line, CLI::App* job) {
  const auto flags = std::make_shared<TraceOptions>();
  CLI::App* trace = line.AddCommand(
      job, "trace", "Save recorded steps as a trace for Perfetto",
      [flags](const Invocation& invocation) { return JobTrace(invocation, *flags); },
      {"stretto job trace gpt", "stretto job trace gpt --steps 100:102 --output slow.json"});
  AddName(trace, &flags->name);
  trace
      ->add_option("--steps", flags->steps,
                   "steps to save, as A:B, A:, :B or A (default: the newest 10)")
      ->type_name("STEPS");
  AddRank(trace, &flags->rank);
  AddOutput(trace, &flags->file, "FILE",
            "file to write; - is standard output (default: JOB-trace.json)");
}

void AddTimeline(CommandLine& line, CLI::App* job) {
  const auto flags = std::make_shared<TraceOptions>();
  CLI::App* timeline = line.AddCommand(
      job, "timeline", "Draw the timeline of a step",
      [flags](const Invocation& invocation) { return JobTimeline(invocation, *flags); },
      {"stretto job timeline gpt", "stretto job timeline gpt --step 100 --svg step.svg"});
  AddName(timeline, &flags->name);
  timeline
      ->add_option("--step", flags->step,
                   "step to draw (default: the newest of the last 10 without an evaluation or a "
                   "wait for a checkpoint)")
      ->check(Integer(1, INT64_MAX));
  AddRank(timeline, &flags->rank);
  timeline
      ->add_option("--svg", flags->svg, "also write the timeline to this file as an SVG picture")
      ->type_name("FILE");
}

}  // namespace

void AddJobCommands(CommandLine& line) {
  CLI::App* job = line.AddGroup("job", "Submit, follow and compare jobs",
                                {"stretto job submit gpt.yaml --follow", "stretto job list"});
  AddSubmit(line, job);
  AddClone(line, job);
  AddList(line, job);
  AddSimple(line, job);
  AddResume(line, job);
  AddCheckpoint(line, job);
  AddLogs(line, job);
  AddEvents(line, job);
  AddCurve(line, job);
  AddMetrics(line, job);
  AddCompare(line, job);
  AddTrace(line, job);
  AddTimeline(line, job);
}

}  // namespace stretto::cli

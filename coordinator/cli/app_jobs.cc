// The flags of `stretto job ...`.
#include "coordinator/cli/app_tree.h"
#include "coordinator/cli/commands/compare.h"

namespace stretto::cli {

void App::AddJob() {
  CLI::App* job = AddGroup("job", "Submit and follow jobs",
                           {"stretto job submit gpt.yaml --follow", "stretto job list"});
  CLI::App* submit =
      AddCommand(job, "submit", "Submit a job file",
                 [this](const Session& s) { return SubmitJob(s, submit_); },
                 {"stretto job submit gpt.yaml --follow", "stretto job submit gpt.yaml --dry-run",
                  "sed 's/tp_size: 2/tp_size: 4/' gpt.yaml | stretto job submit - --name gpt-tp4"});
  submit->add_option("FILE", submit_.file, "job file (YAML); - reads stdin")->required();
  submit->add_option("--name", submit_.name, "name of the job, instead of the file's")
      ->type_name("NAME");
  submit
      ->add_option("--request-id", submit_.request_id, "repeat safely: the same id creates one job")
      ->type_name("ID");
  CLI::Option* follow = submit->add_flag("--follow", submit_.follow, "show progress until it ends");
  CLI::Option* wait =
      submit->add_flag("--wait", submit_.wait, "wait silently until it ends")->excludes(follow);
  submit_.planner = environment_.binary_dir + "/stretto-planner";
  submit
      ->add_flag("--dry-run", submit_.dry_run,
                 "check everything, store nothing: shows defaults, placement and memory")
      ->excludes(follow)
      ->excludes(wait);
  CLI::App* list = AddCommand(job, "list", "List jobs, newest first",
                              [this](const Session& s) { return ListJobs(s, limit_); },
                              {"stretto job list", "stretto job list --limit 0 -o json"});
  list->add_option("--limit", limit_, "at most so many; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddName(AddCommand(job, "get", "Show one job",
                     [this](const Session& s) { return GetJob(s, name_); },
                     {"stretto job get gpt", "stretto job get gpt -o yaml"}));
  AddName(AddCommand(job, "describe", "Show everything about one job",
                     [this](const Session& s) { return DescribeJobCommand(s, name_); },
                     {"stretto job describe gpt", "stretto job describe gpt --context lab"}));
  AddName(AddCommand(
      job, "cancel", "Ask a job to stop", [this](const Session& s) { return CancelJob(s, name_); },
      {"stretto job cancel gpt", "stretto job cancel gpt && stretto job watch gpt"}));
  AddJobViews(job);
  AddMetrics(job);
  AddCompare(job);
  AddTrace(job);
}

void App::AddJobViews(CLI::App* job) {
  AddName(AddCommand(job, "watch",
                     "Follow a job until it ends, on a terminal with a view of the whole of it",
                     [this](const Session& s) { return WatchJob(s, name_, FollowStyle::kScreen); },
                     {"stretto job watch gpt", "stretto job watch gpt | tee gpt.log",
                      "stretto job watch gpt -o json | jq .step.loss"}));
  CLI::App* logs =
      AddCommand(job, "logs", "Print the logs of its ranks",
                 [this](const Session& s) { return JobLogs(s, name_, rank_, follow_logs_); },
                 {"stretto job logs gpt -f", "stretto job logs gpt --rank 1"});
  AddName(logs);
  logs->add_flag("-f,--follow", follow_logs_, "until the job ends");
  logs->add_option("--rank", rank_, "of one rank only")->check(CLI::NonNegativeNumber);
  CLI::App* curve = AddCommand(job, "curve", "Draw the loss so far",
                               [this](const Session& s) { return JobCurve(s, name_, height_); },
                               {"stretto job curve gpt", "stretto job curve gpt --height 30"});
  AddName(curve);
  curve->add_option("--height", height_, "lines")->check(CLI::Range(3, 100))->capture_default_str();
}

void App::AddMetrics(CLI::App* job) {
  CLI::App* metrics =
      AddCommand(job, "metrics", "Print every step, for a spreadsheet or a script",
                 [this](const Session& s) { return JobMetrics(s, metrics_); },
                 {"stretto job metrics gpt -o gpt.csv", "stretto job metrics gpt --steps 100:200",
                  "stretto job metrics gpt --json | jq '.[-1].held_out_loss'"});
  metrics->add_option("JOB", metrics_.name, "its name")->required();
  CLI::Option* json = metrics->add_flag("--json", metrics_.json, "a list of objects");
  metrics
      ->add_flag_callback(
          "--csv", [] {}, "a line for each step under a line of names; the default")
      ->excludes(json);
  metrics->add_option("--steps", metrics_.steps, "A:B, A: or :B, or one; default all")
      ->type_name("STEPS");
  metrics->add_option("-o,--output", metrics_.file, "- is stdout, the default")->type_name("FILE");
}

void App::AddCompare(CLI::App* job) {
  CLI::App* compare =
      AddCommand(job, "compare", "Compare the steps of several jobs",
                 [this](const Session& s) { return CompareJobs(s, names_); },
                 {"stretto job compare sync domino", "stretto job compare sync domino -o json"});
  compare->add_option("JOB", names_, "their names")->required();
}

void App::AddTrace(CLI::App* job) {
  CLI::App* trace =
      AddCommand(job, "trace", "Save recorded steps for Perfetto",
                 [this](const Session& s) { return JobTrace(s, trace_); },
                 {"stretto job trace gpt", "stretto job trace gpt --steps 100:102 -o slow.json"});
  trace->add_option("JOB", trace_.name, "its name")->required();
  trace->add_option("--steps", trace_.steps, "A:B, A: or :B, or one; default the newest 10")
      ->type_name("STEPS");
  trace->add_option("--rank", trace_.rank, "of one rank only")->check(CLI::NonNegativeNumber);
  trace->add_option("-o,--output", trace_.file, "- is stdout; default JOB-trace.json")
      ->type_name("FILE");
  CLI::App* timeline = AddCommand(
      job, "timeline", "Draw one step", [this](const Session& s) { return JobTimeline(s, trace_); },
      {"stretto job timeline gpt", "stretto job timeline gpt --step 100 --svg step.svg"});
  timeline->add_option("JOB", trace_.name, "its name")->required();
  timeline->add_option("--step", trace_.step, "default the newest")->check(CLI::PositiveNumber);
  timeline->add_option("--rank", trace_.rank, "of one rank only")->check(CLI::NonNegativeNumber);
  timeline->add_option("--svg", trace_.svg, "write a picture too")->type_name("FILE");
}

}  // namespace stretto::cli

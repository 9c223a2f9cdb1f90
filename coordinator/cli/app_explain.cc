// The flags of `stretto explain`.
#include "coordinator/cli/app_tree.h"
#include "coordinator/cli/help/cli_reference.h"

namespace stretto::cli {

void App::AddExplain() {
  CLI::App* explain = AddLocal(
      &app_, "explain", "Explain a field of job files",
      [this] {
        if (explain_.markdown != "cli") {
          return Explain(explain_, terminal_, format());
        }
        terminal_.out << CliReference(ReadCommands(app_));
        return kOk;
      },
      {"stretto explain job.spec.schedule", "stretto explain schedule.parameters --recursive"});
  explain->add_option("PATH", explain_.path, "job.spec.schedule, schedule.name, worker, ...")
      ->capture_default_str();
  explain->add_flag("--recursive", explain_.recursive, "the tree of all fields below");
  explain->add_option("--markdown", explain_.markdown, "a file of docs/reference")
      ->check(CLI::IsMember({"job-spec", "api", "cli"}))
      ->group("");  // for the repository's own tests
}

}  // namespace stretto::cli

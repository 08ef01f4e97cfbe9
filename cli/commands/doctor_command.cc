#include "cli/commands/command.h"
#include "cli/console.h"
#include "cli/doctor/checks.h"

namespace pike::cli {
namespace {

ExitCode Run(DoctorOptions options, const GlobalOptions& globals) {
  options.runtime_dir = globals.runtime_dir;
  options.service = globals.service;
  const std::vector<Finding> findings = Examine(options);
  Console().PrintResult(RenderFindings(findings));
  return IsHealthy(findings) ? ExitCode::kOk : ExitCode::kFailure;
}

}  // namespace

void AddDoctorCommand(CLI::App* app, const GlobalOptions* globals, Action* action) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app->add_subcommand("doctor", "Look for what is missing on this machine");
  command->add_option("--python", options->python, "Python to look at (default: as `pike up`)");
  command->footer("Example:\n  pike doctor\n\nExit codes: 0 nothing is missing, 1 something is.");
  command->callback([=] { *action = [=] { return Run(*options, *globals); }; });
}

}  // namespace pike::cli

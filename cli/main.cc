#include <iostream>

#include <CLI/CLI.hpp>

#include "cli/commands/command.h"

namespace pike::cli {
namespace {

constexpr char kMainFooter[] =
    R"(Quick start:
  pike up                                   # in one terminal
  pike eval examples/tasks/01_attention.py examples/candidates/valid/01_fused_attention.py

Exit codes: 0 ok; 1 it did not work, or a verdict is not valid; 2 bad arguments or input; 3 the
service is not reachable; 4 infra_error or refused work (`pike eval`); 130 interrupted.)";

}  // namespace

int Main(int argc, char** argv) {
  CLI::App app("pike checks and times candidate programs against PyTorch modules.", "pike");
  GlobalOptions globals;
  Action action;
  app.add_option("--service", globals.service,
                 "Where the service is, as in unix:/run/pike/pike.sock or 127.0.0.1:7300 (default: "
                 "PIKE_SERVICE, else what `pike up` wrote)");
  app.add_option("--runtime-dir", globals.runtime_dir,
                 "Folder of sockets and locks (default: PIKE_RUNTIME_DIR, XDG_RUNTIME_DIR/pike, "
                 "/tmp/pike-<uid>)");
  app.add_option("--wait", globals.wait_s,
                 "Seconds to wait for a service that is not there yet; 0: try once")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  app.set_version_flag("--version", "pike " PIKE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kMainFooter);
  AddUpCommand(&app, &globals, &action);
  AddEvalCommand(&app, &globals, &action);
  AddGetCommand(&app, &globals, &action);
  AddListCommand(&app, &globals, &action);
  AddCancelCommand(&app, &globals, &action);
  AddWorkersCommand(&app, &globals, &action);
  AddDrainCommand(&app, &globals, &action);
  AddTaskCommand(&app, &globals, &action);
  AddDoctorCommand(&app, &globals, &action);
  AddVersionCommand(&app, &action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // The library's own codes for usage errors start at 100.
    const bool is_help = app.exit(error, std::cout, std::cerr) == 0;
    return static_cast<int>(is_help ? ExitCode::kOk : ExitCode::kUsage);
  }
  return static_cast<int>(action());
}

}  // namespace pike::cli

int main(int argc, char** argv) {
  return pike::cli::Main(argc, argv);
}

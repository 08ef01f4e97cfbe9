#include "cli/commands/command.h"
#include "cli/console.h"

namespace pike::cli {

void AddVersionCommand(CLI::App* app, Action* action) {
  CLI::App* command = app->add_subcommand("version", "Print the version");
  command->footer("Example:\n  pike version");
  command->callback([=] {
    *action = [] {
      Console().PrintResult("pike " PIKE_VERSION "\n");
      return ExitCode::kOk;
    };
  });
}

}  // namespace pike::cli

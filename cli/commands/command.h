#pragma once

#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <google/protobuf/message.h>

#include "cli/client/service_client.h"
#include "cli/eval/plan.h"
#include "cli/exit_code.h"

namespace pike::cli {

// Options before or after every subcommand.
struct GlobalOptions {
  std::string service;      // gRPC target; empty: PIKE_SERVICE, else the endpoint file
  std::string runtime_dir;  // empty: PIKE_RUNTIME_DIR, else the default
  int wait_s = 10;          // for a service that is not there yet
};

// What main runs once the arguments are parsed; the chosen subcommand sets it.
using Action = std::function<ExitCode()>;

// Each adds one subcommand to `app`. `globals` and `action` outlive the parse.
void AddEvalCommand(CLI::App* app, const GlobalOptions* globals, Action* action);
void AddGetCommand(CLI::App* app, const GlobalOptions* globals, Action* action);
void AddListCommand(CLI::App* app, const GlobalOptions* globals, Action* action);
void AddCancelCommand(CLI::App* app, const GlobalOptions* globals, Action* action);
void AddWorkersCommand(CLI::App* app, const GlobalOptions* globals, Action* action);
void AddDrainCommand(CLI::App* app, const GlobalOptions* globals, Action* action);
void AddTaskCommand(CLI::App* app, const GlobalOptions* globals, Action* action);
void AddUpCommand(CLI::App* app, const GlobalOptions* globals, Action* action);
void AddDoctorCommand(CLI::App* app, const GlobalOptions* globals, Action* action);
void AddVersionCommand(CLI::App* app, Action* action);

// Options that `eval` and `task check` share. `options` outlives the parse.
void AddPolicyOptions(CLI::App* command, EvalOptions* options);

// A new name for a run.
std::string NewRunId();

// A client of the service the user means, connected; waits up to `wait_s` for a service that is
// just starting, and says so. Unavailable says what to do.
absl::StatusOr<std::unique_ptr<ServiceClient>> Connect(const GlobalOptions& globals);

// Prints an error of a call or of Connect and returns the exit code for it.
ExitCode ReportFailure(const absl::Status& status);

// Prints `message` on standard output as one line of proto3 JSON.
absl::Status PrintJsonLine(const google::protobuf::Message& message);

}  // namespace pike::cli

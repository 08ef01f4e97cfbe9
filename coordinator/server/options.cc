#include "coordinator/server/options.h"

#include <iostream>

#include <CLI/CLI.hpp>
#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include "common/base/status_macros.h"
#include "common/service/runtime_dir.h"

namespace pike::coordinator {
namespace {

constexpr char kFooter[] = R"(Example:
  pike-coordinator --store ~/pike-state --gpu-class nvidia-h200

Exit status: 0 stopped as asked, 1 failure, 2 wrong usage.)";

// Milliseconds as CLI11 takes them.
struct Periods {
  int64_t heartbeat_ms;
  int64_t lease_timeout_ms;
  int64_t worker_memory_ms;
  int64_t deadline_margin_ms;
  int64_t lease_slack_ms;
  int64_t retry_delay_ms;
  int64_t retry_delay_ms_max;

  explicit Periods(const CoreOptions& core)
      : heartbeat_ms(core.heartbeat_interval.count()),
        lease_timeout_ms(core.lease_timeout.count()),
        worker_memory_ms(core.worker_memory.count()),
        deadline_margin_ms(core.deadline_margin.count()),
        lease_slack_ms(core.lease_slack.count()),
        retry_delay_ms(core.retry_delay.count()),
        retry_delay_ms_max(core.retry_delay_max.count()) {}

  void CopyTo(CoreOptions* core) const {
    core->heartbeat_interval = Milliseconds(heartbeat_ms);
    core->lease_timeout = Milliseconds(lease_timeout_ms);
    core->worker_memory = Milliseconds(worker_memory_ms);
    core->deadline_margin = Milliseconds(deadline_margin_ms);
    core->lease_slack = Milliseconds(lease_slack_ms);
    core->retry_delay = Milliseconds(retry_delay_ms);
    core->retry_delay_max = Milliseconds(retry_delay_ms_max);
  }
};

void AddPlaces(CLI::App* app, Options* options) {
  app->add_option("--listen", options->listen,
                  "gRPC target: unix:/path or 127.0.0.1:port (default: the runtime folder's "
                  "pike.sock)");
  app->add_option("--store", options->store,
                  "state folder (default: $XDG_DATA_HOME/pike or ~/.local/share/pike)");
  app->add_option("--runtime-dir", options->runtime_dir,
                  "folder of sockets and addresses (default: $PIKE_RUNTIME_DIR, "
                  "$XDG_RUNTIME_DIR/pike or /tmp/pike-<uid>)");
  app->add_option("--metrics-address", options->metrics_address,
                  "where /metrics is served: 127.0.0.1:port, port 0 for any, or off")
      ->capture_default_str();
  app->add_option("--gpu-class", options->core.gpu_classes,
                  "GPU class that will have workers, so that work for it queues (repeatable)");
}

void AddPeriods(CLI::App* app, Periods* periods) {
  app->add_option("--heartbeat-ms", periods->heartbeat_ms, "workers send heartbeats this often")
      ->capture_default_str();
  app->add_option("--lease-timeout-ms", periods->lease_timeout_ms,
                  "a lease not heard of for this long is lost; also the grace after a restart")
      ->capture_default_str();
  app->add_option("--worker-memory-ms", periods->worker_memory_ms,
                  "how long a lost worker counts as one that may come back")
      ->capture_default_str();
  app->add_option("--deadline-margin-ms", periods->deadline_margin_ms,
                  "added to a lease's deadline before it is cancelled")
      ->capture_default_str();
  app->add_option("--lease-slack-ms", periods->lease_slack_ms,
                  "waiting for build slots and device locks that a lease may add")
      ->capture_default_str();
  app->add_option("--retry-delay-ms", periods->retry_delay_ms,
                  "wait before the second attempt of a stage; ten times as long before each "
                  "further one")
      ->capture_default_str();
  app->add_option("--retry-delay-ms-max", periods->retry_delay_ms_max,
                  "longest wait before an attempt")
      ->capture_default_str();
}

void AddBounds(CLI::App* app, Options* options) {
  CoreOptions& core = options->core;
  app->add_option("--queue-compile-max", core.queue_compile_max,
                  "evaluations in or before the compile stage; more are refused")
      ->capture_default_str();
  app->add_option("--queue-run-max", core.queue_run_max, "evaluations past the compile stage")
      ->capture_default_str();
  app->add_option("--principal-max", core.evaluations_per_principal_max,
                  "live evaluations of one principal")
      ->capture_default_str();
  app->add_option("--mailbox-max", options->mailbox_max, "events that wait for the loop")
      ->capture_default_str();
  app->add_option("--watchers-max", options->watchers_max, "Watch calls at once")
      ->capture_default_str();
  app->add_option("--canary-interval-s", options->canary_interval_s,
                  "GPU workers are tried with programs of known verdict when they join and this "
                  "often; 0: never")
      ->capture_default_str();
  app->add_option("--blob-bytes-max", options->blob_bytes_max, "largest blob")
      ->capture_default_str();
}

absl::Status FindFolders(Options* options) {
  ASSIGN_OR_RETURN(options->runtime_dir, service::OpenRuntimeDir(options->runtime_dir));
  ASSIGN_OR_RETURN(options->store, service::OpenStateDir(options->store));
  if (options->listen.empty())
    options->listen = service::DefaultTarget(options->runtime_dir);
  return absl::OkStatus();
}

template <typename Number>
void CheckRange(const char* name, Number value, Number min, Number max,
                std::vector<std::string>* problems) {
  if (value < min || value > max)
    problems->push_back(absl::StrCat(name, " is ", value, "; it must be ", min, " to ", max));
}

}  // namespace

std::vector<std::string> Problems(const Options& options) {
  std::vector<std::string> problems = Problems(options.core);
  if (!options.listen.empty()) {
    const absl::Status listen = service::CheckListenTarget(options.listen);
    if (!listen.ok())
      problems.push_back(absl::StrCat("--listen ", listen.message()));
  }
  CheckRange<uint32_t>("--mailbox-max", options.mailbox_max, 16, 1'000'000, &problems);
  CheckRange<uint32_t>("--watchers-max", options.watchers_max, 1, 1'000'000, &problems);
  if (options.canary_interval_s != 0)
    CheckRange<uint32_t>("--canary-interval-s", options.canary_interval_s, 60, 30 * 86'400,
                         &problems);
  CheckRange<uint64_t>("--blob-bytes-max", options.blob_bytes_max, uint64_t{1} << 20,
                       uint64_t{16} << 30, &problems);
  return problems;
}

ParsedOptions ParseOptions(int argc, const char* const* argv) {
  Options options;
  Periods periods(options.core);
  CLI::App app("Owns the queue, the leases and the library of a pike service.", "pike-coordinator");
  app.footer(kFooter);
  AddPlaces(&app, &options);
  AddPeriods(&app, &periods);
  AddBounds(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11's own statuses are above 100.
    return {.exit_status = app.exit(error) == 0 ? 0 : 2};
  }
  periods.CopyTo(&options.core);
  const std::vector<std::string> problems = Problems(options);
  for (const std::string& problem : problems)
    std::cerr << "pike-coordinator: " << problem << "\n";
  if (!problems.empty())
    return {.exit_status = 2};
  const absl::Status folders = FindFolders(&options);
  if (!folders.ok()) {
    std::cerr << "pike-coordinator: " << std::string(folders.message()) << "\n";
    return {.exit_status = 1};
  }
  return {.options = std::move(options)};
}

}  // namespace pike::coordinator

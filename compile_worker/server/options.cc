#include "compile_worker/server/options.h"

#include <unistd.h>

#include <iostream>

#include <CLI/CLI.hpp>
#include <absl/strings/str_cat.h>

#include "common/device/core_plan.h"
#include "common/service/worker_session.h"

namespace pike::compile_worker {
namespace {

constexpr int kUsageError = 2;

void Declare(CLI::App* app, Options* options) {
  app->add_option("--service", options->service,
                  "coordinator, e.g. unix:/run/pike.sock or 127.0.0.1:7300");
  app->add_option("--python", options->python, "interpreter with torch for candidates")->required();
  app->add_option("--slots", options->slots,
                  "candidates and builds at once (default: from cores and memory)");
  app->add_option("--warm", options->warm, "import sandboxes kept ready")->capture_default_str();
  app->add_option("--cache-dir", options->cache_dir,
                  "folder for artifacts and links (default: in the state folder)");
  app->add_option("--cache-gib", options->cache_gib, "artifacts kept on disk")
      ->capture_default_str();
  app->add_option("--memory-max", options->memory_gib, "GiB of one import")->capture_default_str();
  app->add_option("--build-memory-max", options->build_memory_gib, "GiB of one build")
      ->capture_default_str();
  app->add_option("--runtime-dir", options->runtime_dir, "folder of sockets and addresses");
  app->add_option("--metrics-address", options->metrics_address,
                  "where /metrics is served; port 0: any, off: nowhere")
      ->capture_default_str();
  app->add_option("--uid-base", options->uid_base,
                  "as root: first uid of the sandboxes; workers of one host need their own")
      ->capture_default_str();
  app->add_option("--cores", options->cores,
                  "stay on these cores, e.g. 0-11,14: others are kept for what is timed");
  app->add_flag("--without-cgroups", options->is_without_cgroups,
                "watch memory instead of limiting it by cgroups");
  app->add_flag("--require-sandbox", options->is_sandbox_required,
                "refuse to start where a layer of the sandbox is missing");
}

}  // namespace

std::vector<std::string> CheckOptions(const Options& options) {
  std::vector<std::string> problems;
  const auto check_range = [&problems](const char* name, double value, double min, double max) {
    if (value < min || value > max)
      problems.push_back(absl::StrCat(name, " must be between ", min, " and ", max));
  };
  check_range("--slots", static_cast<double>(options.slots), 0, service::kWorkerSlotsMax);
  check_range("--warm", static_cast<double>(options.warm), 1, 64);
  check_range("--cache-gib", options.cache_gib, 0.01, 1024);
  check_range("--memory-max", options.memory_gib, 0.5, 1024);
  check_range("--build-memory-max", options.build_memory_gib, 0.5, 1024);
  check_range("--uid-base", options.uid_base, 1000, 4'000'000'000.0);
  const auto cores = device::ParseCores(options.cores);
  if (!options.cores.empty() && !cores.ok())
    problems.push_back(absl::StrCat("--cores ", cores.status().message()));
  if (::access(options.python.c_str(), X_OK) != 0)
    problems.push_back(absl::StrCat("--python ", options.python, " is not a program"));
  return problems;
}

ParsedOptions ParseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  CLI::App app("Imports candidates and builds their extensions, without a GPU.");
  app.footer(
      "Example:\n  pike-compile-worker --service unix:/tmp/pike-0/pike.sock --python "
      ".venv/bin/python\n\nExit status: 0 stopped as asked, 1 failure, 2 wrong usage.");
  Declare(&app, &parsed.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.is_exit = true;
    parsed.exit_code = app.exit(error) == 0 ? 0 : kUsageError;
    return parsed;
  }
  const std::vector<std::string> problems = CheckOptions(parsed.options);
  for (const std::string& problem : problems)
    std::cerr << "pike-compile-worker: " << problem << "\n";
  parsed.is_exit = !problems.empty();
  parsed.exit_code = problems.empty() ? 0 : kUsageError;
  return parsed;
}

}  // namespace pike::compile_worker

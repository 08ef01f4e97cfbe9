#include <string>

#include "common/base/log.h"
#include "common/service/stop_signal.h"
#include "compile_worker/server/options.h"
#include "compile_worker/server/worker.h"

int main(int argc, char** argv) {
  pike::SetLogName("pike-compile-worker");
  const pike::compile_worker::ParsedOptions parsed = pike::compile_worker::ParseOptions(argc, argv);
  if (parsed.is_exit)
    return parsed.exit_code;
  pike::service::StopSignal stop;
  const absl::Status status = pike::compile_worker::RunWorker(parsed.options, &stop);
  if (!status.ok()) {
    pike::LogError(std::string(status.message()));
    return 1;
  }
  return 0;
}

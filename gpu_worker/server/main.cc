#include <string>

#include "common/base/log.h"
#include "common/service/stop_signal.h"
#include "gpu_worker/server/options.h"
#include "gpu_worker/server/worker.h"

int main(int argc, char** argv) {
  pike::SetLogName("pike-gpu-worker");
  const pike::gpu::ParsedOptions parsed = pike::gpu::ParseOptions(argc, argv);
  if (parsed.is_exit)
    return parsed.exit_code;
  pike::service::StopSignal stop;
  const absl::Status status = pike::gpu::RunWorker(parsed.options, &stop);
  if (!status.ok()) {
    pike::LogError(std::string(status.message()));
    return 1;
  }
  return 0;
}

#include <sys/stat.h>

#include <cstdlib>
#include <memory>

#include "common/base/log.h"
#include "common/service/stop_signal.h"
#include "coordinator/server/options.h"
#include "coordinator/server/server.h"

int main(int argc, char** argv) {
  using namespace pike::coordinator;
  // Sockets, the store and its blobs are their owner's alone.
  ::umask(0077);
  const ParsedOptions parsed = ParseOptions(argc, argv);
  if (!parsed.options.has_value())
    return parsed.exit_status;
  pike::SetLogName("pike-coordinator");
  pike::service::StopSignal stop;
  auto server = Server::Start(*parsed.options, [&stop] { stop.Request(); });
  if (!server.ok()) {
    pike::LogError(server.status().message());
    return EXIT_FAILURE;
  }
  stop.Wait();
  pike::LogInfo("stopping");
  return (*server)->Stop().ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}

#include <unistd.h>

#include <random>
#include <string>

#include <absl/strings/str_cat.h>

#include "common/service/worker_client.h"

namespace pike::service {

std::string HostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0')
    return "unknown";
  return name;
}

std::string MakeWorkerId(const std::string& kind) {
  std::string host = HostName().substr(0, 24);
  for (char& c : host) {
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '-')
      c = '-';
  }
  std::random_device random;
  return absl::StrCat(kind, "-", host, "-", ::getpid(), "-", absl::Hex(random(), absl::kZeroPad8));
}

}  // namespace pike::service

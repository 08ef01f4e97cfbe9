#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include "common/base/unique_fd.h"
#include "tests/testing/catch.h"

namespace pike::testing {

// One of our families as Prometheus would scrape it.
struct MetricFamily {
  std::string type;  // "counter", "gauge", "histogram"
  std::string help;
  std::set<std::string> labels;  // names, "le" left out; one set for all series
  double total = 0;              // of all samples; of the counts for a histogram
};

// Body of http://<address>/metrics. Fails the test if there is none.
inline std::string Scrape(const std::string& address) {
  const std::vector<std::string> parts = absl::StrSplit(address, ':');
  REQUIRE(parts.size() == 2);
  int port = 0;
  REQUIRE(absl::SimpleAtoi(parts[1], &port));
  sockaddr_in server{};
  server.sin_family = AF_INET;
  server.sin_port = htons(static_cast<uint16_t>(port));
  REQUIRE(::inet_pton(AF_INET, parts[0].c_str(), &server.sin_addr) == 1);
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.get(), reinterpret_cast<sockaddr*>(&server), sizeof(server)) == 0);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  REQUIRE(::write(socket.get(), request.data(), request.size()) ==
          static_cast<ssize_t>(request.size()));
  std::string text;
  char buffer[4096];
  for (ssize_t count = 1; (count = ::read(socket.get(), buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<size_t>(count));
  REQUIRE(absl::StrContains(text.substr(0, text.find('\n')), "200"));
  const size_t body = text.find("\r\n\r\n");
  REQUIRE(body != std::string::npos);
  return text.substr(body + 4);
}

// The families of `page` whose names begin with "pike_".
inline std::map<std::string, MetricFamily> ParseMetrics(const std::string& page) {
  std::map<std::string, MetricFamily> families;
  for (absl::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
    const bool is_help = absl::ConsumePrefix(&line, "# HELP ");
    const bool is_type = !is_help && absl::ConsumePrefix(&line, "# TYPE ");
    if (!absl::StartsWith(line, "pike_"))
      continue;
    std::string name(line.substr(0, line.find_first_of(" {")));
    if (is_help || is_type) {
      const std::string text(line.substr(name.size() + 1));
      (is_help ? families[name].help : families[name].type) = text;
      continue;
    }
    bool is_counted = true;
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      absl::string_view family = name;
      if (absl::ConsumeSuffix(&family, suffix) && families.contains(std::string(family))) {
        is_counted = absl::StrContains(suffix, "count");
        name = std::string(family);
        break;
      }
    }
    MetricFamily& family = families[name];
    double value = 0;
    REQUIRE(absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value));
    family.total += is_counted ? value : 0;
    if (line.find('{') == absl::string_view::npos)
      continue;
    const size_t begin = line.find('{') + 1;
    for (absl::string_view label :
         absl::StrSplit(line.substr(begin, line.rfind('}') - begin), "\",", absl::SkipEmpty())) {
      const std::string key(label.substr(0, label.find('=')));
      if (key != "le")
        family.labels.insert(key);
    }
  }
  return families;
}

// "type name{labels}", for comparison.
inline std::string Signature(const std::string& name, const MetricFamily& family) {
  return absl::StrCat(family.type, " ", name, "{", absl::StrJoin(family.labels, ","), "}");
}

}  // namespace pike::testing

#include "common/device/device_choice.h"

#include <algorithm>
#include <optional>

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

#include "common/base/status_macros.h"

namespace pike::device {
namespace {

Device OfGpu(const GpuInfo& gpu) {
  return {Device::Kind::kCuda, gpu.uuid, GpuClass(gpu.name), gpu.arch, gpu.minor, gpu.memory_bytes};
}

std::string ListText(const std::vector<GpuInfo>& gpus) {
  if (gpus.empty())
    return "this machine has none that the driver shows; use --gpus none (of a worker: --devices "
           "cpu)";
  std::vector<std::string> lines;
  for (size_t i = 0; i < gpus.size(); ++i)
    lines.push_back(absl::StrCat(i, " is ", gpus[i].name, " (", gpus[i].uuid, ")"));
  return absl::StrCat("there are: ", absl::StrJoin(lines, ", "));
}

absl::StatusOr<Device> FindOne(absl::string_view word, const std::vector<GpuInfo>& gpus) {
  size_t index = 0;
  if (absl::SimpleAtoi(word, &index) && index < gpus.size())
    return OfGpu(gpus[index]);
  std::optional<Device> found;
  for (const GpuInfo& gpu : gpus) {
    if (!absl::StartsWith(word, "GPU-") || !absl::StartsWith(gpu.uuid, word))
      continue;
    if (found)
      return absl::InvalidArgumentError(absl::StrCat("'", word, "' fits several GPUs"));
    found = OfGpu(gpu);
  }
  if (!found)
    return absl::InvalidArgumentError(absl::StrCat("no GPU '", word, "': ", ListText(gpus)));
  return *found;
}

absl::StatusOr<std::vector<Device>> Simulated(absl::string_view count_text) {
  int count = 0;
  if (!absl::SimpleAtoi(count_text, &count) || count < 1 || count > kDevicesMax)
    return absl::InvalidArgumentError(
        absl::StrCat("simulated:N wants a number from 1 to ", kDevicesMax));
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i)
    devices.push_back({Device::Kind::kCpu, absl::StrCat("simulated-", i), kSimulatedClass, "cpu"});
  return devices;
}

absl::Status CheckAlike(const std::vector<Device>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].gpu_class != devices[0].gpu_class || devices[i].arch != devices[0].arch)
      return absl::InvalidArgumentError(
          absl::StrCat("the GPUs are of different classes (", devices[0].gpu_class, ", ",
                       devices[i].gpu_class, "): choose those of one by number or UUID"));
    for (size_t k = 0; k < i; ++k) {
      if (devices[k].id == devices[i].id)
        return absl::InvalidArgumentError(absl::StrCat(devices[i].id, " is named twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string GpuClass(absl::string_view product_name) {
  std::string slug;
  for (const char c : product_name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)))
      slug.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
    else if (!slug.empty() && slug.back() != '-')
      slug.push_back('-');
  }
  if (!slug.empty() && slug.back() == '-')
    slug.pop_back();
  return slug.empty() ? "gpu" : slug;
}

absl::StatusOr<std::vector<Device>> ChooseDevices(const std::string& text,
                                                  const std::vector<GpuInfo>& gpus) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "simulated:"))
    return Simulated(rest);
  if (text == "cpu" || text == "none" || (text == "auto" && gpus.empty()))
    return std::vector<Device>{{Device::Kind::kCpu, "cpu", "cpu", "cpu"}};
  std::vector<Device> devices;
  if (text == "auto" || text == "all") {
    for (const GpuInfo& gpu : gpus)
      devices.push_back(OfGpu(gpu));
    if (devices.empty())
      return absl::InvalidArgumentError(absl::StrCat("no GPU: ", ListText(gpus)));
  } else {
    for (const absl::string_view word : absl::StrSplit(text, ',')) {
      ASSIGN_OR_RETURN(Device device, FindOne(absl::StripAsciiWhitespace(word), gpus));
      devices.push_back(std::move(device));
    }
  }
  if (devices.size() > kDevicesMax)
    return absl::InvalidArgumentError(
        absl::StrCat(devices.size(), " GPUs are more than one worker takes (", kDevicesMax, ")"));
  RETURN_IF_ERROR(CheckAlike(devices));
  return devices;
}

}  // namespace pike::device

#include "gpu_worker/supervisor/task_report.h"

#include <algorithm>
#include <cmath>

#include "common/base/text.h"
#include "gpu_worker/supervisor/json_frame.h"

namespace pike::gpu {
namespace {

constexpr int kReportLinesMax = 32;
constexpr int kReportInputsMax = 64;
constexpr size_t kReportLineBytesMax = 400;
constexpr size_t kReportNameBytesMax = 200;

std::string LineOf(const nlohmann::json& text) {
  return text.is_string() ? EscapeLine(text.get<std::string>().substr(0, kReportLineBytesMax)) : "";
}

// Calls `add` with each item of an array member.
template <typename Add>
void ForEach(const nlohmann::json& frame, const char* name, int count_max, Add add) {
  const nlohmann::json& list = MemberOf(frame, name);
  if (!list.is_array())
    return;
  for (const nlohmann::json& item : list) {
    if (count_max-- <= 0)
      return;
    add(item);
  }
}

double ShareOf(const nlohmann::json& frame, const char* name) {
  const double share = NumberOf(frame, name);
  return std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
}

}  // namespace

CheckedTask CheckedTaskOf(const nlohmann::json& frame) {
  CheckedTask checked;
  v1::TaskReport& report = checked.report;
  ForEach(frame, "degenerate", kReportLinesMax,
          [&](const nlohmann::json& line) { report.add_degenerate(LineOf(line)); });
  ForEach(frame, "not_checked", kReportLinesMax,
          [&](const nlohmann::json& line) { report.add_not_checked(LineOf(line)); });
  report.set_is_deterministic(FlagOf(frame, "is_deterministic"));
  ForEach(frame, "inputs", kReportInputsMax, [&](const nlohmann::json& item) {
    v1::InputDependence* input = report.add_inputs();
    input->set_path(EscapeLine(TextOf(item, "path").substr(0, kReportNameBytesMax)));
    input->set_changed(ShareOf(item, "changed"));
  });
  report.set_frozen_passes(ShareOf(frame, "frozen_passes"));
  report.set_zeros_passes(ShareOf(frame, "zeros_passes"));
  report.set_constant_passes(ShareOf(frame, "constant_passes"));
  report.set_copy_passes(ShareOf(frame, "copy_passes"));
  report.set_reference_ms(NumberOf(frame, "reference_ms"));
  report.set_input_bytes(CountOf(frame, "input_bytes"));
  report.set_output_bytes(CountOf(frame, "output_bytes"));
  report.set_device_bytes_peak(CountOf(frame, "device_bytes_peak"));
  ForEach(frame, "precisions", kReportLinesMax, [&](const nlohmann::json& item) {
    v1::PrecisionError* error = report.add_precisions();
    error->set_precision(EscapeLine(TextOf(item, "precision").substr(0, kReportNameBytesMax)));
    error->set_error(NumberOf(item, "error"));
    checked.precision.errors.push_back({error->precision(), error->error()});
  });
  if (frame.contains("native_error"))
    checked.precision.native_error = NumberOf(frame, "native_error");
  checked.needed = {.read = CountOf(frame, "needed_read_bytes"),
                    .written = CountOf(frame, "needed_written_bytes")};
  return checked;
}

nlohmann::json TolerancesOf(const v1::Policy& policy) {
  nlohmann::json rows = nlohmann::json::array();
  for (const v1::DtypeTolerance& row : policy.tolerances())
    rows.push_back({{"dtype", row.dtype()}, {"atol", row.atol()}, {"rtol", row.rtol()}});
  return {{"atol", policy.atol()}, {"rtol", policy.rtol()}, {"tolerances", std::move(rows)}};
}

std::string ToleranceKey(const v1::Policy& policy) {
  return TolerancesOf(policy).dump();
}

}  // namespace pike::gpu

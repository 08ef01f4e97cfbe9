#include "cli/policy_text.h"

#include <cmath>
#include <cstdint>

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <google/protobuf/descriptor.h>

namespace pike::cli {
namespace {

using google::protobuf::FieldDescriptor;

// Absent and zero mean "the policy's default", so a zero that the user typed would be lost.
absl::Status SetUnsigned(absl::string_view value, const FieldDescriptor& field, bool is_wide,
                         v1::Policy* policy) {
  uint64_t number = 0;
  const uint64_t number_max = is_wide ? UINT64_MAX : UINT32_MAX;
  if (!absl::SimpleAtoi(value, &number) || number == 0 || number > number_max) {
    return absl::InvalidArgumentError(absl::StrCat(field.name(), " wants a whole number from 1 to ",
                                                   number_max, ", not \"", value, "\""));
  }
  if (is_wide)
    policy->GetReflection()->SetUInt64(policy, &field, number);
  else
    policy->GetReflection()->SetUInt32(policy, &field, static_cast<uint32_t>(number));
  return absl::OkStatus();
}

absl::Status SetReal(absl::string_view value, const FieldDescriptor& field, v1::Policy* policy) {
  double number = 0;
  if (!absl::SimpleAtod(value, &number) || !std::isfinite(number) || number < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field.name(), " wants a number of at least 0, not \"", value, "\""));
  }
  policy->GetReflection()->SetDouble(policy, &field, number);
  return absl::OkStatus();
}

// "float16:1e-2:1e-3": dtype, absolute and relative tolerance.
absl::Status AddTolerance(absl::string_view value, v1::Policy* policy) {
  const std::vector<std::string> parts = absl::StrSplit(value, ':');
  double atol = 0;
  double rtol = 0;
  if (parts.size() != 3 || !absl::SimpleAtod(parts[1], &atol) ||
      !absl::SimpleAtod(parts[2], &rtol)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tolerances wants DTYPE:ATOL:RTOL, for example float16:1e-2:1e-2, not \"", value, "\""));
  }
  v1::DtypeTolerance* added = policy->add_tolerances();
  added->set_dtype(parts[0]);
  added->set_atol(atol);
  added->set_rtol(rtol);
  return absl::OkStatus();
}

}  // namespace

absl::Status SetPolicyField(absl::string_view assignment, v1::Policy* policy) {
  const size_t equals = assignment.find('=');
  if (equals == absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("\"", assignment,
                                                   "\" is not of the form key=value; keys are ",
                                                   absl::StrJoin(PolicyFieldNames(), ", ")));
  }
  const std::string key(assignment.substr(0, equals));
  const absl::string_view value = assignment.substr(equals + 1);
  const FieldDescriptor* field = v1::Policy::descriptor()->FindFieldByName(key);
  if (field == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("no policy field \"", key, "\"; there are ",
                                                   absl::StrJoin(PolicyFieldNames(), ", ")));
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return SetUnsigned(value, *field, false, policy);
    case FieldDescriptor::CPPTYPE_UINT64:
      return SetUnsigned(value, *field, true, policy);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return SetReal(value, *field, policy);
    case FieldDescriptor::CPPTYPE_STRING:
      policy->GetReflection()->SetString(policy, field, std::string(value));
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return AddTolerance(value, policy);
    default:
      return absl::UnimplementedError(absl::StrCat("policy field ", key, " cannot be set here"));
  }
}

std::vector<std::string> PolicyFieldNames() {
  const auto* descriptor = v1::Policy::descriptor();
  std::vector<std::string> names;
  for (int i = 0; i < descriptor->field_count(); i++)
    names.push_back(descriptor->field(i)->name());
  return names;
}

}  // namespace pike::cli

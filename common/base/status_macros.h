#pragma once

#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#define RETURN_IF_ERROR(expression)                   \
  do {                                                \
    ::absl::Status status_macro_value = (expression); \
    if (!status_macro_value.ok())                     \
      return status_macro_value;                      \
  } while (false)

#define PIKE_CONCAT_INNER(a, b) a##b
#define PIKE_CONCAT(a, b) PIKE_CONCAT_INNER(a, b)

// ASSIGN_OR_RETURN(auto x, F()): `x` becomes F()'s value, or F()'s error is returned.
#define ASSIGN_OR_RETURN(lhs, expression) \
  ASSIGN_OR_RETURN_INNER(PIKE_CONCAT(status_or_, __LINE__), lhs, expression)
#define ASSIGN_OR_RETURN_INNER(statusor, lhs, expression) \
  auto statusor = (expression);                           \
  if (!statusor.ok())                                     \
    return statusor.status();                             \
  lhs = std::move(statusor).value()

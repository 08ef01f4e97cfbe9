#pragma once

#include <string>

#include "coordinator/core/command.h"
#include "coordinator/core/event.h"
#include "coordinator/core/record.h"

namespace pike::coordinator::sim {

// One line with every field that decides something; the trace is made of these.
std::string Describe(const Event& event);
std::string Describe(const Command& command);
std::string Describe(const Record& record);

}  // namespace pike::coordinator::sim

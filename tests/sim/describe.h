#pragma once

#include <string>

#include "coordinator/core/command.h"
#include "coordinator/core/event.h"
#include "coordinator/core/record.h"

namespace pike::sim {

// One line with every field that decides something; the trace is made of these.
std::string Describe(const coordinator::Event& event);
std::string Describe(const coordinator::Command& command);
std::string Describe(const coordinator::Record& record);

}  // namespace pike::sim

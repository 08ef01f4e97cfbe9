#pragma once

#include <string>
#include <vector>

#include "cli/doctor/checks.h"

namespace pike::cli {

// GPUs, and whether their driver answers here. Loads the driver's libraries into this process.
void CheckGpu(bool is_torch_without_cuda, std::vector<Finding>* findings);

// Memory that is free, and room on the disks of `folders`.
void CheckRoom(const std::vector<std::string>& folders, std::vector<Finding>* findings);

}  // namespace pike::cli
